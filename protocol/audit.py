"""The records of the audit topic: CloudEvents as JSON, each with the SHA-256 of the one before it.

A record's key is the SHA-256 of its own value, so that a changed value is told from a changed
chain. Made by brokers, checked by `minikafka audit verify`.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple

AUDIT_ENABLE: Final = "minikafka.audit.enable"
AUDIT_REQUIRED: Final = "minikafka.audit.required"
"""Settings of the whole cluster."""
AUDIT_PARTITION: Final = 0
BATCH_MAX: Final = 1 << 20
"""The bytes that the topic takes in one batch at least."""
UNKNOWN: Final = -1
BEGINNING: Final = "0" * 64
"""The `prev` of the first record."""
CHANGE: Final = "minikafka.audit.change"
GAP: Final = "minikafka.audit.gap"
"""Types of events: a request that changed something; requests that could not be written."""


class Link(NamedTuple):
    """The end of the chain: what the next record goes on from."""

    number: int = 0
    """The number of the newest request that is written or named as missing; 0 if there is none."""
    digest: str = BEGINNING


class Event(NamedTuple):
    """One event, without its place in the chain."""

    id: str
    type: str
    at_ms: int
    subject: str
    data: Mapping[str, Any]


def digest_of(value: bytes) -> str:
    """Return the SHA-256 of a value in hexadecimal digits."""
    return sha256(value).hexdigest()


def encode_event(event: Event, cluster_id: str, number: int, prev: str) -> bytes:
    """Return the value of a record: one CloudEvent."""
    document = {
        "specversion": "1.0",
        "id": event.id,
        "time": time_text(event.at_ms),
        "type": event.type,
        "source": f"/minikafka/{cluster_id}",
        "subject": event.subject,
        "datacontenttype": "application/json",
        "number": number,
        "prev": prev,
        "data": event.data,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(
        errors="backslashreplace"
    )


def time_text(ms: int) -> str:
    """Return a time of day in RFC 3339; beyond the year 9999 it is the last one that can be."""
    since = timedelta(milliseconds=min(max(ms, 0), 253_402_300_799_999))
    at = datetime(1970, 1, 1, tzinfo=UTC) + since
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_event(value: bytes | None) -> dict[str, Any] | None:
    """Return the event of a record; None if it is none."""
    try:
        document = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    known = isinstance(document, dict) and isinstance(document.get("data"), dict)
    if not known or type(document.get("number")) is not int:
        return None
    return dict(document)


def link_behind(value: bytes | None) -> Link | None:
    """Return where the chain goes on behind a record; None if it is no event."""
    event = read_event(value)
    return None if event is None else Link(event["number"], digest_of(value or b""))


class ChainCheck:
    """Checks the records of the audit topic one after the other, from any offset on."""

    def __init__(self) -> None:
        self.last: tuple[int, Link] | None = None
        """The offset of the record before, and where the chain goes on; None before the first."""
        self.gaps: list[tuple[int, int]] = []
        """The first and the last number of requests that were not written."""

    def add(self, offset: int, key: bytes | None, value: bytes | None) -> str | None:
        """Check the next record; return what is wrong with it or before it, else None."""
        event, before = read_event(value), self.last
        number = UNKNOWN if event is None else event["number"]
        digest = digest_of(value or b"")
        is_own = key == digest.encode()
        # The next record is judged by the checksum that was written, not by what was changed.
        kept = digest if is_own else (key or b"").decode(errors="replace")
        self.last = (offset, Link(number, kept))
        if before is not None and offset != before[0] + 1:
            return f"offset {offset}: the record of offset {before[0] + 1} is missing"
        if not is_own:
            return f"offset {offset}: was changed after it was written"
        if event is None:
            return f"offset {offset}: is no record of the audit"
        link = Link() if before is None else before[1]
        if before is None and offset > 0:
            return None  # Retention has deleted what this one follows.
        fault = self._fault(event, link)
        return None if fault is None else f"offset {offset}: {fault}"

    def _fault(self, event: dict[str, Any], link: Link) -> str | None:
        number, kind = event["number"], event.get("type")
        if event.get("prev") != link.digest:
            return "does not follow the record before it: one of both was changed"
        if link.number == UNKNOWN:
            return None
        if kind == GAP and number > link.number:
            self.gaps.append((link.number + 1, number))
        elif kind == GAP or number != link.number + (kind == CHANGE):
            return f"tells of request {number} behind request {link.number}"
        return None
