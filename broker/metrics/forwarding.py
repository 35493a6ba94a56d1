"""Metrics of delay topics: what waits, what is late, and which records their targets refuse."""

from collections.abc import Callable, Iterator
from typing import Final

from ...runtime.metrics import Family, Sample, counter, gauge, labels, summary
from ..forward.leading import Counts
from ..forward.source import Source

OVER: Final[tuple[tuple[str, str, Callable[[Counts], int]], ...]] = (
    ("forwarded", "that targets have taken", lambda counts: counts.forwarded),
    ("deadlettered", "that went to the topic for dead letters", lambda it: it.dead_letters),
    ("dropped", "that nobody could take", lambda counts: counts.dropped),
    ("cancelled", "that were cancelled", lambda counts: counts.cancelled),
)


class ForwardMetrics:
    """Collects the metrics of the partitions of delay topics that this broker leads."""

    def __init__(
        self,
        sources: Callable[[], list[Source]],
        wall_ms: Callable[[], int],
        now_ms: Callable[[], int],
    ) -> None:
        """`now_ms` is the monotonic clock."""
        self._sources = sources
        self._wall_ms = wall_ms
        self._now_ms = now_ms

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        led = [source for source in self._sources() if source.leading is not None]
        named = [(_labels(source), source) for source in led]
        yield gauge(
            "minikafka_forward_pending",
            "Records that wait until they are due, or are due and not planned yet.",
            [(name, source.pending) for name, source in named],
        )
        yield gauge(
            "minikafka_forward_planned",
            "Records that are on their way to their target.",
            [(name, _planned(source)) for name, source in named],
        )
        yield gauge(
            "minikafka_forward_held",
            "Records on their way whose target does not take them now.",
            [(name, _held(source)) for name, source in named],
        )
        wall_ms = self._wall_ms()
        yield gauge(
            "minikafka_forward_overdue_seconds",
            "Seconds since the first record was due that is not planned yet; 0 if none is.",
            [(name, _overdue(source, wall_ms)) for name, source in named],
        )
        yield gauge(
            "minikafka_forward_clock_held",
            "1 while nothing is forwarded because this broker's clock is ahead of the others'.",
            [(name, int(_is_clock_held(source))) for name, source in named],
        )
        yield summary(
            "minikafka_forward_lateness_ms",
            "Milliseconds from when a record is due until its target has it: of each batch the one "
            "that was due first.",
            [(name, it.lateness.durations) for name, it in named if it.lateness.durations],
            self._now_ms(),
        )
        for word, what, count in OVER:
            yield counter(
                f"minikafka_forward_{word}",
                f"Records of delay topics {what}, since this broker was started.",
                self._counts(count),
            )

    def _counts(self, count: Callable[[Counts], int]) -> Iterator[Sample]:
        return ((_labels(source), count(source.counts)) for source in self._sources())


def _labels(source: Source) -> str:
    return labels(topic=source.name.topic, partition=source.name.partition)


def _planned(source: Source) -> int:
    return sum(len(plan.offsets) for plan in source.schedule.state.plans.values())


def _held(source: Source) -> int:
    queues = [] if source.leading is None else list(source.leading.targets)
    return sum(len(plan.offsets) for queue in queues if queue.code for plan in queue.plans)


def _is_clock_held(source: Source) -> bool:
    return source.leading is not None and source.leading.is_clock_held


def _overdue(source: Source, wall_ms: int) -> float:
    due_ms = source.next_due_ms
    return 0 if due_ms is None else max(0, wall_ms - due_ms) / 1000
