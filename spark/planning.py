"""Plans a query on the cluster: finds topics, turns bounds into offsets, and makes tasks.

A plan asks the cluster and computes with offsets.py. Missing partitions and lost records are
reported to the reader, which knows `failOnDataLoss`.
"""

from collections.abc import Callable, Mapping

from . import offsets as arithmetic
from .cluster import Cluster, Partitions
from .offsets import OffsetRange
from .options import Offsets, OptionError
from .source_options import AtTime, Bound, SourceOptions

Lost = Callable[[str], None]
"""Called with a text about lost records: raises, or lets the query continue without them."""


class Plan:
    """One view of the cluster: the partitions to read, and their first and last offsets."""

    def __init__(
        self, options: SourceOptions, cluster: Cluster, expected: Offsets | None = None
    ) -> None:
        """Find the partitions that the options name; wait a moment for those in `expected`."""
        self.options = options
        self._cluster = cluster
        assigned = options.assigned
        topics = options.topics or tuple(assigned)
        if options.pattern is not None:
            found = cluster.topics_matching(options.pattern)
            topics = tuple(sorted({*found, *_matching(options, expected or {})}))
        known: Partitions | None = assigned or None
        if expected is not None:
            known = {topic: tuple(by) for topic, by in expected.items()}
        described = cluster.describe(topics, known)
        self.topic_ids = {name: topic.topic_id for name, topic in described.items()}
        self.partitions: Partitions = {
            name: tuple(
                each.partition
                for each in topic.partitions
                if not assigned or each.partition in assigned[name]
            )
            for name, topic in described.items()
        }

    def missing(self) -> list[str]:
        """Name the topics and partitions that the options name and the cluster does not have."""
        return [
            f"{topic}-{index}" if index is not None else topic
            for topic, indexes in _named(self.options).items()
            for index in indexes or (None,)
            if topic not in self.partitions
            or (index is not None and index not in self.partitions[topic])
        ]

    def check_complete(self) -> None:
        """Raise OptionError if the options name a topic or partition that does not exist."""
        missing = self.missing()
        if missing:
            option = "assign" if self.options.assigned else "subscribe"
            raise OptionError(option, ", ".join(missing), "the cluster does not have it")

    def latest(self) -> Offsets:
        """Ask for the end offset of each partition."""
        return self._cluster.latest(self.partitions)

    def start(self, lost: Lost) -> Offsets:
        """Turn the starting bound into an offset for each partition."""
        earliest = self._cluster.earliest(self.partitions)
        return self._resolved(self.options.starting, earliest, self.latest(), lost)

    def between(self, lost: Lost) -> tuple[Offsets, Offsets]:
        """Turn both bounds into offsets; raise OptionError if the start is after the end."""
        starting, ending = self.options.starting, self.options.ending
        earliest, latest = self._cluster.earliest(self.partitions), self.latest()
        start = self._resolved(starting, earliest, latest, lost)
        end = self._resolved(ending, earliest, latest, lost)
        arithmetic.check_not_reversed(starting, start, ending, end)
        return start, end

    def _resolved(self, bound: Bound, earliest: Offsets, latest: Offsets, lost: Lost) -> Offsets:
        if isinstance(bound.at, AtTime):
            return self._at_time(bound, bound.at, latest)
        found = arithmetic.resolve(bound, earliest, latest)
        for why in arithmetic.outside(found, earliest, latest):
            lost(why)
        return arithmetic.clamped(found, earliest, latest)

    def _at_time(self, bound: Bound, at: AtTime, latest: Offsets) -> Offsets:
        times = at.times_ms
        if isinstance(times, int):
            times = {topic: dict.fromkeys(by, times) for topic, by in self.partitions.items()}
        arithmetic.check_names_all(bound.option, times, latest)
        found = self._cluster.at_times(times)
        for topic, by in found.items():
            for partition, offset in by.items():
                # Records written between the two requests belong to a later query.
                end = latest[topic][partition]
                if offset < 0 and not at.or_latest:
                    raise OptionError(
                        bound.option,
                        times[topic][partition],
                        f"{topic}-{partition} has no record that young; "
                        "startingOffsetsByTimestampStrategy = latest would start at its end",
                    )
                by[partition] = end if offset < 0 else min(offset, end)
        return found


def tasks(
    options: SourceOptions, start: Offsets, end: Offsets, topic_ids: Mapping[str, str]
) -> list[OffsetRange]:
    """List the ranges to read, one for each task; a single empty range if there are none."""
    found = arithmetic.split(arithmetic.ranges(start, end, topic_ids), options.splitting)
    # Spark would make one partition of an empty list, and read it.
    return found or [OffsetRange("", 0, 0, 0)]


def with_named(options: SourceOptions, offsets: Offsets) -> Offsets:
    """Add the partitions that the options name and a query does not read yet, at offset 0."""
    named = {
        topic: dict.fromkeys(indexes, 0) | offsets.get(topic, {})
        for topic, indexes in _named(options).items()
    }
    return offsets | named


def _named(options: SourceOptions) -> Mapping[str, tuple[int, ...]]:
    """Return the topics of `subscribe`, without partitions, or those of `assign`."""
    return options.assigned or dict.fromkeys(options.topics, ())


def _matching(options: SourceOptions, offsets: Offsets) -> list[str]:
    pattern = options.pattern
    return [topic for topic in offsets if pattern is not None and pattern.search(topic)]
