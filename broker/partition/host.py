"""The objects that all partitions of a broker share: its clocks, its lease, its callbacks."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ...client.net.refusals import Refusals
from ...runtime.errors import StorageError
from ..deadlines import Deadlines
from ..replica.leader import ProposeIsr
from ..replica.lease import LeaderLease
from ..replica.state import KnownBrokers
from ..replica.throttle import Throttles
from ..tracing.tracer import Tracer
from . import intake
from .group_flush import GroupFlush
from .traffic import Traffic

if TYPE_CHECKING:
    from .partition import Partition


@dataclass(slots=True)
class Host:
    """The broker as its partitions see it; partitions add themselves to `dirty` and `moved`."""

    broker_id: int
    wheel: Deadlines
    monotonic_ms: Callable[[], int]
    wall_ms: Callable[[], int]
    lag_max_ms: int
    propose: Callable[["Partition", ProposeIsr], None]
    on_storage_error: Callable[["Partition", StorageError], None]
    group_flush: GroupFlush
    on_role_changed: Callable[["Partition"], None]
    """Called with a partition that has a new leader epoch or has gone offline."""
    lease: LeaderLease
    brokers: KnownBrokers = field(default_factory=KnownBrokers)
    traffic: Traffic | None = None
    """The counts by topic; None if this broker keeps none."""
    tracer: Tracer | None = None
    """The batches that are traced are told to it; None while no batch is."""
    throttles: Throttles = field(default_factory=Throttles)
    refusals: Refusals = field(default_factory=Refusals)
    openings: intake.Openings = field(default_factory=intake.Openings)
    dirty: list["Partition"] = field(default_factory=list)
    """Partitions with staged appends, which are to be written."""
    moved: dict["Partition", None] = field(default_factory=dict)
    """Partitions whose high watermark moved since the last checkpoint."""

    def lacks_lease(self) -> bool:
        """True if this broker needs a lease to act as a leader, and does not hold it."""
        lease = self.lease
        return lease.is_required and not lease.is_held(self.monotonic_ms())
