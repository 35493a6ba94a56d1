"""Metrics of the audit: what its topic does not have yet, and what it will never have."""

from collections.abc import Iterator

from ...protocol.audit import AUDIT_PARTITION
from ...protocol.types import AUDIT_TOPIC, NO_LEADER
from ...runtime.metrics import Family, counter, gauge
from ..edge import Edge


class AuditMetrics:
    """Collects the metrics of the audit on this broker."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        edge = self._edge
        writer, feed = edge.audit_writer, edge.audit_feed
        link, newest = writer.link, edge.image.audited.newest
        yield gauge(
            "minikafka_audit_unwritten",
            "Requests that changed the cluster and are not in the audit topic yet; 0 on brokers"
            " that do not lead its partition.",
            0 if link is None else max(0, newest - link.number),
        )
        yield gauge(
            "minikafka_audit_blocked",
            "1 if requests were audited and this broker leads their topic and cannot write it, or"
            " knows no leader of it; else 0. The log says why.",
            int(writer.is_blocked or (newest > 0 and not _is_led(edge))),
        )
        yield counter(
            "minikafka_audit_told",
            "Denials, failed logins and changes of its own that this broker told the audit.",
            [("", feed.told)],
        )
        yield counter(
            "minikafka_audit_dropped",
            "Denials, failed logins and changes of its own that the audit will never have, because"
            " they were too many.",
            [("", feed.dropped + edge.audit.left_out)],
        )


def _is_led(edge: Edge) -> bool:
    topic = edge.image.topic(AUDIT_TOPIC)
    return topic is not None and topic.partitions[AUDIT_PARTITION].leader != NO_LEADER
