"""The header that names the clusters a record has passed, so that it never goes round in a loop.

Names of topics tell loops under the default policy. Under the identity policy only the record can:
each mirror adds the id of its source, and drops what its target's id is in already.
"""

from ..records import Header

HEADER = "minikafka-mirror"

Pairs = tuple[tuple[str, bytes | None], ...]


def passed(headers: Pairs) -> list[str]:
    """Return the ids of the clusters that a record has passed, the first one first."""
    told = next((value for key, value in reversed(headers) if key == HEADER), None)
    return told.decode(errors="replace").split(",") if told else []


def marked(headers: Pairs, source_id: str, target_id: str) -> tuple[Header, ...] | None:
    """Return the headers at the target, or None if the record has been there already."""
    ids = passed(headers)
    if target_id in ids:
        return None
    if source_id not in ids:
        ids.append(source_id)
    others = [Header(key, value) for key, value in headers if key != HEADER]
    return (*others, Header(HEADER, ",".join(ids).encode()))
