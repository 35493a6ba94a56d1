"""Server-sent events, as bytes."""


def event(text: str, name: str = "") -> bytes:
    """Write one event."""
    lines = [f"event: {name}"] if name else []
    lines += [f"data: {line}" for line in text.splitlines()]
    return ("\n".join(lines) + "\n\n").encode(errors="replace")
