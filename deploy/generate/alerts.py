"""Alerting rules for Prometheus: conditions under which an operator should look at the cluster.

Pure. A condition that a restart causes and that clears by itself must last for a while before it
raises an alert. docs/monitoring.md has a section for each alert, under the alert's name.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ...runtime.metrics import labels
from .yaml_text import text_of

OVERDUE_SECONDS: Final = 60
"""Age of a record that is due and not planned, above which its delay topic raises an alert."""
LOOP_DELAY_MS: Final = 200
"""Delay of an event loop, in ms, above which a daemon raises an alert."""
MEMORY_SHARE: Final = 0.9
"""Share of a memory limit at which to warn; at 1, connections are paused or closed."""
SPACE_SHARE: Final = 0.15
"""Free share of a disk below which to warn; a full disk takes its data directory offline."""

_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_REPLICAS: Final = "kafka_server_replicamanager_"


class Patience(NamedTuple):
    """Thresholds that only the owner of a cluster can know."""

    lag_seconds: int
    """The lag, as the age of the oldest unread record, at which a group raises an alert."""
    topics: tuple[str, ...]
    """Topics that regularly receive records."""
    silence: str
    """The time without a record that raises an alert for these topics, as a Prometheus duration."""


class Alert(NamedTuple):
    """One alerting rule."""

    name: str
    severity: str
    """`critical` if records are or may be lost, or cannot be written; `warning` if the next failure
    would do that."""
    expr: str
    lasting: str
    """How long the condition must hold, as a Prometheus duration."""
    summary: str
    description: str


def rules(job: str, patience: Patience, runbook_url: str) -> str:
    """Return the alerts about one cluster as a Prometheus file of rules."""
    return text_of(
        {
            "groups": [
                {
                    "name": job,
                    "rules": [
                        {
                            "alert": alert.name,
                            "expr": alert.expr,
                            "for": alert.lasting,
                            "labels": {"severity": alert.severity},
                            "annotations": {
                                "summary": alert.summary,
                                "description": alert.description,
                                "runbook_url": f"{runbook_url}#{alert.name.lower()}",
                            },
                        }
                        for alert in alerts(job, patience)
                    ],
                }
            ]
        }
    )


def alerts(job: str, patience: Patience) -> Iterator[Alert]:
    """Yield the alerts about one cluster, by subject."""
    here = labels(job=job)
    yield from _of_the_cluster(here)
    yield from _of_replicas(here)
    yield from _of_daemons(job, here)
    yield from _of_readers(here, patience)
    if patience.topics:
        yield _silence(job, patience.topics, patience.silence)


def _of_the_cluster(here: str) -> Iterator[Alert]:
    yield Alert(
        "OfflinePartitions",
        "critical",
        f"max by (job) ({_CONTROLLER}offlinepartitionscount{here}) > 0",
        "30s",
        "{{ $value }} partitions of {{ $labels.job }} have no leader",
        "Nothing can be written to them or read from them: no replica that may lead is alive.",
    )
    active = f"{_CONTROLLER}activecontrollercount{here}"
    yield Alert(
        "AbnormalControllerState",
        "critical",
        f"(sum by (job) ({active}) or 0 * absent({active})) != 1",
        "1m",
        "{{ $value }} controllers of {{ $labels.job }} are active, in place of 1",
        "Without an active controller no leader is elected, no topic is made, and brokers stop"
        " serving when their leases end. Two for long are two clusters under one name, or one that"
        " is cut off and does not know of its successor.",
    )
    yield Alert(
        "UncleanElection",
        "critical",
        "sum by (job) (increase("
        f"kafka_controller_controllerstats_uncleanleaderelections_total{here}[10m])) > 0",
        "0s",
        "A leader of {{ $labels.job }} was elected that may lack committed records",
        "Acknowledged records may be gone. The alert clears ten minutes later; the loss does not.",
    )
    yield Alert(
        "FencedBrokers",
        "warning",
        f"max by (job) ({_CONTROLLER}fencedbrokercount{here}) > 0",
        "1m",
        "{{ $value }} brokers of {{ $labels.job }} are registered and not in service",
        "They are down, cut off from the controller, or have not caught up yet.",
    )


def _of_replicas(here: str) -> Iterator[Alert]:
    yield Alert(
        "UnderMinIsrPartitionCount",
        "critical",
        f"{_REPLICAS}underminisrpartitioncount{here} > 0",
        "1m",
        "{{ $value }} partitions led by {{ $labels.instance }} take no acks=all",
        "Their ISR is smaller than min.insync.replicas: producers are refused until it grows.",
    )
    yield Alert(
        "UnderReplicatedPartitions",
        "warning",
        f"{_REPLICAS}underreplicatedpartitions{here} > 0",
        "1m",
        "{{ $value }} partitions led by {{ $labels.instance }} lack a replica in sync",
        "A broker is down or its replicas do not keep up. The next loss may leave them without"
        " a leader, or below min.insync.replicas.",
    )
    yield Alert(
        "OfflineLogDirectoryCount",
        "critical",
        f"kafka_log_logmanager_offlinelogdirectorycount{here} > 0",
        "0s",
        "{{ $value }} data directories of {{ $labels.instance }} failed",
        "The broker serves nothing of them until it is started again.",
    )
    yield Alert(
        "RunningOutOfSpace",
        "warning",
        f"minikafka_disk_usable_bytes{here} / minikafka_disk_bytes{here} < {SPACE_SHARE}",
        "5m",
        "The disk of {{ $labels.logDirectory }} at {{ $labels.instance }} has"
        " {{ $value | humanizePercentage }} left",
        "When nothing is left, the data directory goes offline.",
    )


def _of_daemons(job: str, here: str) -> Iterator[Alert]:
    yield Alert(
        "ScrapeProblem",
        "critical",
        f"up{here} == 0",
        "1m",
        "{{ $labels.instance }} of {{ $labels.job }} does not answer",
        "The daemon is down, hangs, or its metrics listener cannot be reached from here.",
    )
    yield Alert(
        "EventLoopDelay",
        "warning",
        f"minikafka_event_loop_delay_ms{labels(job=job, quantile='0.99')} > {LOOP_DELAY_MS}",
        "5m",
        "The event loop of {{ $labels.instance }} is up to {{ $value | humanize }} ms late",
        "Everything that this daemon does waits for so long: the machine is overloaded, or the"
        " daemon has more to do than one core can.",
    )
    yield Alert(
        "MemoryNearCap",
        "warning",
        f"minikafka_memory_bytes{here} / minikafka_memory_limit_bytes{here} > {MEMORY_SHARE}",
        "5m",
        "Memory for {{ $labels.holds }} of {{ $labels.instance }} is"
        " {{ $value | humanizePercentage }} full",
        "When it is full, clients that hold it are paused or closed.",
    )


def _of_readers(here: str, patience: Patience) -> Iterator[Alert]:
    yield Alert(
        "ConsumerGroupLag",
        "warning",
        "max by (job, consumergroup, topic) ("
        f"minikafka_consumergroup_lag_seconds{here}) > {patience.lag_seconds}",
        "5m",
        "Group {{ $labels.consumergroup }} is {{ $value | humanizeDuration }} behind"
        " in {{ $labels.topic }}",
        "A record has waited for so long to be read: the group is down, stuck or too slow.",
    )
    late = f"max by (job, topic) (minikafka_forward_overdue_seconds{here}) > {OVERDUE_SECONDS}"
    held = f"max by (job, topic) (minikafka_forward_held{here}) > 0"
    yield Alert(
        "RecordsNotForwarded",
        "warning",
        f"{late} or {held}",
        "5m",
        "Records of the delay topic {{ $labels.topic }} are due and are not forwarded",
        "Their target refuses them or is not there, forwarding is paused, or their leader has more"
        " to do than it can.",
    )
    yield Alert(
        "AuditNotWritten",
        "critical",
        f"max by (job) (minikafka_audit_blocked{here}) > 0",
        "5m",
        "Changes of the cluster are not written to the audit",
        "The audit topic has no leader, takes no records or does not go with the metadata; the"
        " oldest changes are lost once more wait than the metadata keep.",
    )


def _silence(job: str, topics: tuple[str, ...], silence: str) -> Alert:
    """Make the alert for topics without a record for `silence`, counted in windows of 5 minutes.

    A new topic raises the alert only after that time, too.
    """
    counts = (
        f"kafka_server_brokertopicmetrics_messagesin_total{labels(job=job, topic=topic)}"
        for topic in topics
    )
    each = (
        f"sum by (job, topic) (increase({count}[5m])) or 0 * absent({count})" for count in counts
    )
    return Alert(
        "NoMessagesForTooLong",
        "warning",
        "(\n  {}\n) == 0".format("\n  or ".join(each)),
        silence,
        f"Nothing was written to {{{{ $labels.topic }}}} for {silence}",
        "Its producers are down, or they cannot reach the cluster.",
    )
