"""Counts over the partitions of a broker, taken in one walk at each scrape.

Pure. Under-replicated, at min ISR and under min ISR mean the same as in Kafka's metrics.
"""

from collections.abc import Iterator

from ...protocol.errors import ErrorCode
from ...runtime.metrics import Family, gauge, labels
from ..partition.partition import Partition
from ..replica.leader import LeaderReplica
from .standing import Standing

_COUNTS = "kafka_server_replicamanager_"


class Behind:
    """The lag of one follower: the greatest over all partitions that this broker leads."""

    __slots__ = ("milliseconds", "records")

    def __init__(self) -> None:
        self.records = 0
        self.milliseconds = 0


class Census:
    """The counts of one walk so far."""

    def __init__(self, now_ms: int) -> None:
        """`now_ms` is the monotonic time from which the lag of followers in ms is computed."""
        self._now_ms = now_ms
        self.online = 0
        self.offline = 0
        self.led = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0
        self.reassigning = 0
        self.producer_ids = 0
        self.followers: dict[int, Behind] = {}

    def count(self, partition: Partition) -> None:
        """Count one replica of this broker, whether it leads or not."""
        if partition.offline_because:
            # Only replicas whose disk has failed count as offline, not deleted ones.
            self.offline += partition.offline_because is ErrorCode.KAFKA_STORAGE_ERROR
            return
        self.online += 1
        self.producer_ids += len(partition.log.producers)

    def count_led(self, leader: LeaderReplica, standing: Standing, start: int) -> None:
        """Count a partition that this broker leads, and the lag of its followers.

        `start` is the log start offset.
        """
        self.led += 1
        if not standing.is_ordinary:
            self.under_replicated += standing.is_under_replicated
            self.under_min_isr += standing.is_under_min_isr
            self.at_min_isr += standing.is_at_min_isr
            self.reassigning += standing.is_reassigning
        end, followers = leader.log_end_offset, self.followers
        for follower, progress in leader.followers.items():
            if follower not in followers:
                followers[follower] = Behind()
            held = progress.held_offset
            if held < end:
                behind = followers[follower]
                missing = end - (held if held > start else start)
                if missing > behind.records:
                    behind.records = missing
                late_ms = self._now_ms - progress.caught_up_at_ms
                if late_ms > behind.milliseconds:
                    behind.milliseconds = late_ms

    def families(self) -> Iterator[Family]:
        """Yield the counts as metrics, after the walk."""
        yield gauge(
            _COUNTS + "partitioncount",
            "Replicas on this broker whose directory has not failed.",
            self.online,
        )
        yield gauge(_COUNTS + "leadercount", "Partitions that this broker leads.", self.led)
        yield gauge(
            _COUNTS + "offlinereplicacount",
            "Replicas on this broker whose directory has failed.",
            self.offline,
        )
        yield gauge(
            _COUNTS + "underreplicatedpartitions",
            "Partitions that this broker leads with a replica out of sync.",
            self.under_replicated,
        )
        yield gauge(
            _COUNTS + "underminisrpartitioncount",
            "Partitions that this broker leads whose ISR is smaller than min.insync.replicas.",
            self.under_min_isr,
        )
        yield gauge(
            _COUNTS + "atminisrpartitioncount",
            "Partitions that this broker leads whose ISR has exactly min.insync.replicas members.",
            self.at_min_isr,
        )
        yield gauge(
            _COUNTS + "reassigningpartitions",
            "Partitions that this broker leads and that are being reassigned.",
            self.reassigning,
        )
        yield gauge(
            _COUNTS + "produceridcount",
            "Producers whose state this broker's replicas keep, counted once per partition.",
            self.producer_ids,
        )
        followers = sorted(self.followers.items())
        yield gauge(
            "minikafka_follower_lag_records",
            "Offsets that a follower lacks, in the partition where it lacks the most.",
            [(labels(follower=each), behind.records) for each, behind in followers],
        )
        yield gauge(
            "minikafka_follower_lag_milliseconds",
            "Milliseconds since a follower was caught up, in the partition that waits longest.",
            [(labels(follower=each), behind.milliseconds) for each, behind in followers],
        )
