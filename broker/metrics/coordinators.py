"""The groups and transactions that a broker coordinates."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ...runtime.metrics import Family, gauge, labels
from ..coordinator.group.phases import Phase
from ..coordinator.transaction.transaction import State
from ..edge import Edge

_OF_GROUPS: Final = "kafka_coordinator_group_groupmetadatamanager_"


class CoordinatorMetrics:
    """Collects metrics of groups and transactions; only shards that are loaded count."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        yield from self._groups()
        yield from self._transactions()

    def _groups(self) -> Iterator[Family]:
        states = [shard.state for shard in self._edge.groups.shards]
        phases = Counter(group.phase for state in states for group in state.groups.values())
        yield gauge(
            _OF_GROUPS + "numgroups", "Groups that this broker coordinates.", phases.total()
        )
        for phase in Phase:
            yield gauge(
                f"{_OF_GROUPS}numgroups{phase.value.lower()}",
                f"Groups that this broker coordinates in the state {phase.value}.",
                phases[phase],
            )
        offsets = sum(len(state.offsets) for state in states)
        yield gauge(
            _OF_GROUPS + "numoffsets",
            "Offsets committed by the groups that this broker coordinates.",
            offsets,
        )

    def _transactions(self) -> Iterator[Family]:
        transactions, wall_ms = self._edge.transactions, self._edge.runtime.wall_ms()
        shards = list(transactions.shards)
        states = Counter(known.state for shard in shards for known in shard.state)
        yield gauge(
            "minikafka_transactional_ids",
            "Transactional ids that this broker coordinates, by state.",
            [(labels(state=state.title), states[state]) for state in State],
        )
        began_ms = (known.started_ms for shard in shards for known in shard.state.open)
        yield gauge(
            "minikafka_oldest_open_transaction_seconds",
            "Age in seconds of the oldest open transaction; 0 if none is open.",
            max(0, wall_ms - min(began_ms, default=wall_ms)) / 1000,
        )
        yield gauge(
            "minikafka_transaction_markers_missing",
            "Markers of decided transactions that have not been written yet.",
            sum(len(ending.missing) for ending in transactions.sender.markers),
        )
