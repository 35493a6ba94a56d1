"""The logs of a broker's replicas, and its data directories."""

from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from typing import Final

from ...runtime.errors import LogDirectoryFailed
from ...runtime.metrics import Family, gauge, labels, ready, summary
from ...runtime.runtime import Runtime
from ..partition.log_store import LogStore
from .labelled import Labelled

_OF_LOG = "kafka_log_log_"
_EXTENT: Final = (
    ("logendoffset", "Offset that the replica's next record will get."),
    ("logstartoffset", "First offset of the replica that can be read."),
    ("size", "Bytes of batches in all segments."),
    ("numlogsegments", "Segments of the log; 0 before the first append."),
)
"""The metrics of `Row.extent`, in order."""


class LogMetrics:
    """Collects the metrics of logs and data directories."""

    def __init__(self, runtime: Runtime, store: LogStore, labelled: Labelled) -> None:
        self._runtime = runtime
        self._store = store
        self._labelled = labelled

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape; logs on a failed disk are left out."""
        extents: list[tuple[str, ...]] = []
        for place, (name, help_text) in enumerate(_EXTENT):
            lines = map(itemgetter(place), extents) if place else self._walk(extents)
            yield ready(_OF_LOG + name, help_text, lines)
        yield gauge(
            "kafka_log_logmanager_offlinelogdirectorycount",
            "Data directories that have failed since the start.",
            len(self._store.offline_directory_ids),
        )
        spaces = list(self._spaces())
        yield gauge(
            "minikafka_disk_bytes",
            "Size in bytes of the file system of a data directory.",
            [(tail, total) for tail, (total, _) in spaces],
        )
        yield gauge(
            "minikafka_disk_usable_bytes",
            "Free bytes of that file system that the broker may use.",
            [(tail, usable) for tail, (_, usable) in spaces],
        )
        yield summary(
            "kafka_log_logflushstats_logflushrateandtimems",
            "Milliseconds that flushes of logs to disk took, by data directory.",
            [
                (labels(logDirectory=each.path), each.flush_times.durations)
                for each in self._store.directories
            ],
            self._runtime.monotonic_ms(),
        )

    def _walk(self, extents: list[tuple[str, ...]]) -> Iterator[str]:
        """Add the lines of all logs to `extents`, and yield those of the first metric."""
        for row in self._labelled:
            if not row.partition.offline_because:
                extent = row.extent()
                extents.append(extent)
                yield extent[0]

    def _spaces(self) -> Iterator[tuple[str, tuple[int, int]]]:
        """Yield the total and the usable bytes of each directory that has not failed."""
        for each in self._store.directories:
            with suppress(LogDirectoryFailed):
                yield labels(logDirectory=each.path), each.files.space()
