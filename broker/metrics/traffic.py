"""The counts of what is produced and fetched, by topic and in all."""

from collections.abc import Iterator
from itertools import chain
from operator import attrgetter
from typing import Final

from ...runtime.metrics import Family, counter
from ..partition.traffic import Traffic
from .labelled import Labelled, of_topic

_NAMES: Final = (
    ("messagesin", "messages_in", "Records that producers wrote to this broker."),
    ("bytesin", "bytes_in", "Bytes of batches that producers wrote to this broker."),
    ("bytesout", "bytes_out", "Bytes of batches sent to consumers."),
    ("bytesrejected", "bytes_rejected", "Bytes of produced batches that failed a check."),
    (
        "replicationbytesin",
        "replication_bytes_in",
        "Bytes of batches that replicas of this broker fetched from their leaders.",
    ),
    (
        "replicationbytesout",
        "replication_bytes_out",
        "Bytes of batches sent to followers.",
    ),
    ("totalproducerequests", "produce_requests", "Batches in Produce requests, one per partition."),
    ("totalfetchrequests", "fetch_requests", "Partitions in Fetch requests."),
    (
        "failedproducerequests",
        "failed_produce_requests",
        "Batches that were refused, except those for partitions that another broker leads.",
    ),
    (
        "failedfetchrequests",
        "failed_fetch_requests",
        "Partitions in Fetch requests that failed, except those that another broker leads.",
    ),
)


class TrafficMetrics:
    """Collects the counts of produced and fetched records and bytes, by topic."""

    def __init__(self, traffic: Traffic, labelled: Labelled) -> None:
        self._traffic = traffic
        self._labelled = labelled

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape; topics that left this broker stay in the totals."""
        here = dict.fromkeys([row.partition.topic for row in self._labelled])
        topics = [(of_topic(name), counts) for name, counts in self._traffic.keep(here)]
        for name, count, help_text in _NAMES:
            value = attrgetter(count)
            yield counter(
                f"kafka_server_brokertopicmetrics_{name}",
                help_text,
                chain(
                    [("", self._traffic.total(count))],
                    ((tail, value(counts)) for tail, counts in topics),
                ),
            )
