"""The table of clients' metrics: each one's name, group, unit and meaning.

Pure. Names and groups are those of Kafka's clients. Documentation and exporters are generated from
this table; a test checks that `metrics()` returns exactly its names.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

COUNT_ENDS: Final = ("-total", "-rate")
SPREAD_ENDS: Final = ("-avg", "-max")
_PER: Final = {"-rate": "/s", "-rate-per-hour": "/h"}
_MEANINGS: Final = {
    "-total": "{}.",
    "-rate": "{} per second.",
    "-avg": "{}, on average.",
    "-max": "{}, at most.",
    "-rate-per-hour": "{} per hour.",
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of a client."""

    name: str
    """Kafka's name of the metric, with hyphens; it ends in `-total` if the value only grows."""
    group: str
    """Kafka's group of the metric without `-metrics`: producer, consumer, consumer-coordinator, ...
    """
    unit: str
    """The unit in UCUM notation, which OpenTelemetry uses."""
    doc: str
    """The meaning, one sentence in one line."""

    @property
    def is_total(self) -> bool:
        """True if the value is a total, which only grows while the client lives."""
        return self.name.endswith("-total")

    @property
    def is_rate(self) -> bool:
        """True if the value is the recent rate of a total that is measured too."""
        return "-rate" in self.name and not self.name.startswith("compression")


def _family(
    group: str, stem: str, unit: str, what: str, ends: Iterable[str] = COUNT_ENDS
) -> list[Measure]:
    return [
        Measure(stem + end, group, unit + _PER.get(end, ""), _MEANINGS[end].format(what))
        for end in ends
    ]


def _spread(group: str, stem: str, unit: str, what: str) -> list[Measure]:
    return _family(group, stem, unit, what, SPREAD_ENDS)


def _spent(group: str, call: str, what: str) -> Measure:
    return Measure(f"{call}-time-ns-total", group, "ns", _MEANINGS["-total"].format(what))


def _network(group: str) -> tuple[Measure, ...]:
    return (
        *_family(group, "connection-creation", "{connection}", "Connections made"),
        *_family(group, "connection-close", "{connection}", "Connections closed"),
        Measure("connection-count", group, "{connection}", "Connections that are open."),
        *_family(group, "request", "{request}", "Requests of any kind sent"),
        *_spread(group, "request-size", "By", "Bytes of a request"),
        *_family(group, "outgoing-byte", "By", "Bytes of requests"),
        *_family(group, "response", "{response}", "Answers received"),
        *_family(group, "incoming-byte", "By", "Bytes of answers"),
        *_family(group, "network-io", "{operation}", "Requests and answers"),
    )


_P: Final = "producer"
PRODUCER: Final = (
    *_network(_P),
    *_family(_P, "record-send", "{record}", "Records sent or sent again"),
    *_family(_P, "record-error", "{record}", "Records that failed"),
    *_family(_P, "record-retry", "{record}", "Records to be sent again"),
    *_spread(_P, "record-size", "By", "Bytes per record of a batch before compression"),
    *_spread(_P, "record-queue-time", "ms", "Time from a batch's first record to its sending"),
    Measure("records-per-request-avg", _P, "{record}", "Records per Produce request, on average."),
    *_spread(_P, "batch-size", "By", "Bytes of a batch as it is sent"),
    Measure("compression-rate-avg", _P, "1", "Bytes sent per byte before compression."),
    *_spread(_P, "request-latency", "ms", "Time from a Produce request to its answer"),
    *_spread(_P, "produce-throttle-time", "ms", "Time for which a broker held an answer back"),
    Measure("requests-in-flight", _P, "{request}", "Requests of any kind that are not answered."),
    Measure("buffer-total-bytes", _P, "By", "Value of buffer.memory."),
    Measure(
        "buffer-available-bytes", _P, "By", "Bytes that unsettled records leave of buffer.memory."
    ),
    Measure(
        "buffer-exhausted-total",
        _P,
        "{call}",
        "Calls that BufferFull was raised to.",
    ),
    Measure("waiting-threads", _P, "{call}", "Calls that wait for room in buffer.memory."),
    Measure("metadata-age", _P, "s", "Time since a broker last answered who leads."),
    _spent(_P, "bufferpool-wait", "Time that calls waited for room in buffer.memory"),
    _spent(_P, "flush", "Time that calls of flush took"),
    _spent(_P, "txn-init", "Time until the transactional id was initialized"),
    _spent(_P, "txn-begin", "Time that calls of begin_transaction took"),
    _spent(_P, "txn-send-offsets", "Time that calls of send_offsets took"),
    _spent(_P, "txn-commit", "Time that calls of commit_transaction took"),
    _spent(_P, "txn-abort", "Time that calls of abort_transaction took"),
)

_C: Final = "consumer"
_FETCH: Final = "consumer-fetch-manager"
_GROUP: Final = "consumer-coordinator"
_HOURLY: Final = ("-total", "-rate-per-hour")
CONSUMER: Final = (
    *_network(_C),
    *_spread(_C, "time-between-poll", "ms", "Time from one poll to the next"),
    Measure("last-poll-seconds-ago", _C, "s", "Time since the last poll began."),
    Measure("poll-idle-ratio-avg", _C, "1", "Share of the time that is spent in polls."),
    _spent(_C, "commit-sync", "Time that calls of commit took"),
    _spent(_C, "committed", "Time that calls of committed took"),
    *_family(_FETCH, "records-consumed", "{record}", "Records that polls returned"),
    *_family(_FETCH, "bytes-consumed", "By", "Bytes of batches that polls have used up"),
    Measure("records-per-request-avg", _FETCH, "{record}", "Records taken at once, on average."),
    *_family(_FETCH, "fetch", "{request}", "Fetches answered"),
    *_spread(_FETCH, "fetch-latency", "ms", "Time from a fetch to its answer, waits included"),
    *_spread(_FETCH, "fetch-size", "By", "Bytes of one partition in an answer"),
    *_spread(_FETCH, "fetch-throttle-time", "ms", "Time for which a broker held an answer back"),
    Measure("records-lag-max", _FETCH, "{record}", "Offsets still to read, where they are most."),
    Measure(
        "records-lead-min",
        _FETCH,
        "{record}",
        "Offsets read and not deleted, where they are fewest.",
    ),
    Measure("assigned-partitions", _GROUP, "{partition}", "Partitions being read."),
    *_family(_GROUP, "commit", "{commit}", "Commits made"),
    *_spread(_GROUP, "commit-latency", "ms", "Time that a commit took"),
    *_family(_GROUP, "heartbeat", "{heartbeat}", "Heartbeats answered"),
    *_family(
        _GROUP, "heartbeat-response-time", "ms", "Time until a heartbeat was answered", ("-max",)
    ),
    Measure("last-heartbeat-seconds-ago", _GROUP, "s", "Time since a heartbeat was answered."),
    *_family(_GROUP, "join", "{join}", "Joins of the group"),
    *_spread(_GROUP, "join-time", "ms", "Time that a join took"),
    *_family(_GROUP, "sync", "{sync}", "Assignments asked for"),
    *_spread(_GROUP, "sync-time", "ms", "Time until an assignment came"),
    *_family(_GROUP, "rebalance", "{rebalance}", "Rebalances finished", _HOURLY),
    *_spread(_GROUP, "rebalance-latency", "ms", "Time from the first join to the assignment"),
    *_family(_GROUP, "rebalance-latency", "ms", "Time that rebalances took", ("-total",)),
    *_family(_GROUP, "failed-rebalance", "{rebalance}", "Rebalances that failed", _HOURLY),
    Measure("last-rebalance-seconds-ago", _GROUP, "s", "Time since an assignment came."),
    *_spread(_GROUP, "partition-revoked-latency", "ms", "Time that on_revoked took"),
    *_spread(_GROUP, "partition-assigned-latency", "ms", "Time that on_assigned took"),
    *_spread(_GROUP, "partition-lost-latency", "ms", "Time that on_lost took"),
)

ADMIN: Final = _network("admin-client")

MEASURES: Final = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}
"""The measures of each kind of client."""
