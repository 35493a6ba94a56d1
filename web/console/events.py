"""Server-sent events (the HTML standard's `text/event-stream`) as bytes."""


def event(text: str, name: str = "") -> bytes:
    """Encode one event."""
    lines = [f"event: {name}"] if name else []
    lines += [f"data: {line}" for line in text.splitlines()]
    return ("\n".join(lines) + "\n\n").encode(errors="replace")
