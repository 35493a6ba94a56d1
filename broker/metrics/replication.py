"""The lag of replicas that follow others, and the changes of the ISRs that this broker leads."""

from collections.abc import Iterator

from ...runtime.metrics import Family, counter, gauge, labels, ready
from ..replication.isr_proposals import IsrProposals
from .labelled import Labelled

_OF_MANAGER = "kafka_server_replicamanager_"


class ReplicationMetrics:
    """Collects the metrics of followed partitions and of ISR changes."""

    def __init__(self, proposals: IsrProposals, labelled: Labelled) -> None:
        self._proposals = proposals
        self._labelled = labelled

    def __call__(self) -> Iterator[Family]:
        """Yield the metrics of one scrape."""
        lags = _Lags()
        yield ready(
            "kafka_server_fetcherlagmetrics_consumerlag",
            "Offsets that a replica of this broker lacks to the leader's high watermark.",
            lags.of(self._labelled),
        )
        yield gauge(
            "kafka_server_replicafetchermanager_maxlag",
            "The greatest lag of the replicas with which this broker follows others.",
            [(labels(clientId="Replica"), lags.greatest)],
        )
        changes = self._proposals
        for name, help_text, count in (
            ("isrshrinks", "Times that an ISR led by this broker lost a member.", changes.shrunk),
            (
                "isrexpands",
                "Times that an ISR led by this broker gained a member.",
                changes.expanded,
            ),
            ("failedisrupdates", "Changes of an ISR that the controller refused.", changes.refused),
        ):
            yield counter(_OF_MANAGER + name, help_text, [("", count)])


class _Lags:
    """The lag of each followed partition, and the greatest of them."""

    def __init__(self) -> None:
        self.greatest = 0

    def of(self, labelled: Labelled) -> Iterator[str]:
        for row in labelled:
            partition = row.partition
            if partition.follower is not None:
                known = partition.follower.leader_high_watermark
                lag = max(0, known - partition.log.log_end_offset)
                self.greatest = max(self.greatest, lag)
                yield row.line(lag)
