"""The newest audited requests of a cluster, kept in the image for the leader of the audit topic.

They stay up to the bounds, written or not, also while auditing is off. They are part of snapshots,
so that a broker which begins from one knows what was not written yet.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from .records import AuditedRecord

COUNT_MAX: Final = 10_000
BYTES_MAX: Final = 4 << 20
"""The most requests that are kept, and about the most bytes of them; the newest is always kept."""
_OVERHEAD: Final = 100


@dataclass(slots=True)
class AuditTrail:
    """Audited requests in the order of the metadata log; their numbers have no gaps."""

    records: deque[AuditedRecord] = field(default_factory=deque)
    size: int = 0

    def __iter__(self) -> Iterator[AuditedRecord]:
        return iter(self.records)

    @property
    def newest(self) -> int:
        """The number of the newest request; 0 if there was none."""
        return self.records[-1].number if self.records else 0

    def add(self, record: AuditedRecord) -> None:
        """Add the newest request, and forget the oldest ones beyond the bounds."""
        self.records.append(record)
        self.size += size_of(record)
        while len(self.records) > 1 and (len(self.records) > COUNT_MAX or self.size > BYTES_MAX):
            self.size -= size_of(self.records.popleft())

    def after(self, number: int) -> Iterator[AuditedRecord]:
        """Yield the requests with greater numbers that are kept, oldest first."""
        if number >= self.newest:
            return
        first = self.records[0].number
        for index in range(max(0, number + 1 - first), len(self.records)):
            yield self.records[index]

    def copy(self) -> "AuditTrail":
        """Return a copy that does not change with this one."""
        return AuditTrail(self.records.copy(), self.size)


def size_of(record: AuditedRecord) -> int:
    """Return about how many bytes a request takes."""
    texts = (record.action, record.principal, record.client_id, record.host)
    size = _OVERHEAD + sum(len(each) for each in texts)
    for change in record.changes:
        size += _OVERHEAD + len(change.kind) + len(change.name) + len(change.aspect)
        size += len(change.before or "") + len(change.after or "")
    return size
