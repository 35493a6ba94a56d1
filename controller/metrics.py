"""The collector of a controller's metrics: it reads plain fields when somebody scrapes.

Names are those of Kafka's JMX exporter rules, or begin with `minikafka_` if Kafka has none. Every
controller reports the metadata that it has; only the active one reports brokers and voters.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from ..protocol.control.image import MetadataImage
from ..protocol.types import NO_LEADER
from ..runtime.metrics import Family, Sample, counter, gauge, labels, summary
from ..security.control_seal import DatagramGuards
from .api.sessions import Sessions
from .driver import Controller
from .quorum.following import Following
from .quorum.leading import Leading, Progress
from .quorum.roles import Candidate, Prospective, Resigned, Unattached
from .quorum.standing import Role

_OWN: Final = "minikafka_controller_"
_CONTROLLER: Final = "kafka_controller_kafkacontroller_"
_STATS: Final = "kafka_controller_controllerstats_"
_RAFT: Final = "kafka_server_raft_metrics_"
_RAFT_OF_STRIMZI: Final = "kafka_server_raftmetrics_"
"""The prefix of the quorum's metrics, as Strimzi's rules and dashboards spell it."""

_STATES: Final[dict[type[Role], str]] = {
    Unattached: "unattached",
    Prospective: "prospective",
    Candidate: "candidate",
    Following: "follower",
    Leading: "leader",
    Resigned: "resigned",
}


class PartitionCounts(NamedTuple):
    """Numbers of partitions in the whole cluster."""

    total: int
    offline: int
    """Partitions without a leader."""
    imbalanced: int
    """Partitions that are not led by their first replica."""


def count_partitions(image: MetadataImage) -> PartitionCounts:
    """Count the partitions of the image in one pass, at some 60 ns each."""
    total = offline = imbalanced = 0
    for topic in image.topics.values():
        total += len(topic.partitions)
        for state in topic.partitions.values():
            leader = state.leader
            if leader != state.replicas[0]:
                imbalanced += 1
                offline += leader == NO_LEADER
    return PartitionCounts(total, offline, imbalanced)


class ControllerMetrics:
    """Collects the metrics of one controller."""

    def __init__(self, controller: Controller, sessions: Sessions, guards: DatagramGuards) -> None:
        self._controller = controller
        self._sessions = sessions
        self._guards = guards

    def __call__(self) -> Iterator[Family]:
        """Yield the metric families of one scrape, each read when it is yielded."""
        yield from self._of_the_cluster()
        yield from self._of_decisions()
        yield from self._of_brokers()
        yield from self._of_seals()
        yield from self._of_the_quorum()
        yield from self._of_voters()

    def _of_the_cluster(self) -> Iterator[Family]:
        controller, image = self._controller, self._controller.committed
        counts = count_partitions(image)
        fenced = sum(broker.fenced for broker in image.brokers.values())
        for name, help_text, value in (
            ("activecontrollercount", "1 where decisions are made.", controller.is_active),
            ("globaltopiccount", "Topics of the cluster.", len(image.topics)),
            ("globalpartitioncount", "Partitions of the cluster.", counts.total),
            ("offlinepartitionscount", "Partitions without a leader.", counts.offline),
            (
                "preferredreplicaimbalancecount",
                "Partitions that are not led by their first replica.",
                counts.imbalanced,
            ),
            (
                "activebrokercount",
                "Registered brokers that are not fenced.",
                len(image.brokers) - fenced,
            ),
            ("fencedbrokercount", "Registered brokers that may not lead.", fenced),
            (
                "lastappliedrecordoffset",
                "Offset of the newest record of the metadata log that this controller has applied.",
                image.offset,
            ),
            (
                "lastcommittedrecordoffset",
                "Offset of the newest record of the metadata log that is known to be committed.",
                controller.quorum.high_watermark - 1,
            ),
            (
                "timedoutbrokerheartbeatcount",
                "Times that this controller fenced a broker because its heartbeats had stopped.",
                controller.tally.leases_expired,
            ),
        ):
            yield gauge(_CONTROLLER + name, help_text, int(value))

    def _of_decisions(self) -> Iterator[Family]:
        tally = self._controller.tally
        now_ms = self._controller.runtime.monotonic_ms()
        yield summary(
            f"{_STATS}leaderelectionrateandtimems",
            "Milliseconds from the append of a decision that changes leaders to its commit.",
            (("", tally.elections),),
            now_ms,
        )
        yield summary(
            f"{_OWN}commit_latency_ms",
            "Milliseconds from the append of a decision to its commit.",
            (("", tally.commits),),
            now_ms,
        )
        for name, help_text, count in (
            (
                f"{_STATS}uncleanleaderelections",
                "Unclean elections: the new leader may lack committed records.",
                tally.leaders_elected_uncleanly,
            ),
            (
                f"{_OWN}leaders_elected",
                "Partitions that were given another leader.",
                tally.leaders_elected,
            ),
            (
                f"{_OWN}leaders_lost",
                "Partitions that lost their leader and got no other.",
                tally.leaders_lost,
            ),
            (f"{_OWN}isr_shrinks", "Partitions whose ISR became smaller.", tally.isr_shrinks),
            (f"{_OWN}isr_expands", "Partitions whose ISR became larger.", tally.isr_expands),
        ):
            yield counter(name, help_text, (("", count),))
        yield gauge(
            f"{_OWN}pending_answers",
            "Responses that wait until the decision they report is committed.",
            self._controller.pending_count,
        )

    def _of_brokers(self) -> Iterator[Family]:
        controller = self._controller
        now_ms, offset = controller.runtime.monotonic_ms(), controller.committed.offset
        ages: list[Sample] = []
        lags: list[Sample] = []
        for lease in controller.leases.all:
            tail = labels(broker=lease.broker_id)
            ages.append((tail, now_ms - lease.heard_ms))
            lags.append((tail, max(0, offset - lease.metadata_offset)))
        yield gauge(
            f"{_OWN}heartbeat_age_ms", "Milliseconds since the broker's last heartbeat.", ages
        )
        yield gauge(
            f"{_OWN}broker_metadata_lag",
            "Committed records of the metadata log that the broker has not applied yet.",
            lags,
        )
        yield gauge(
            f"{_OWN}broker_fenced",
            "1 while the broker is fenced, so that it leads no partition.",
            [
                (labels(broker=broker.broker_id), int(broker.fenced))
                for broker in controller.committed.brokers.values()
            ],
        )
        yield gauge(
            f"{_OWN}connections",
            "Connections of brokers, controllers and tools to this controller.",
            len(self._sessions),
        )

    def _of_seals(self) -> Iterator[Family]:
        yield gauge(
            f"{_OWN}unsealed_connections",
            "Connections of brokers, controllers and tools that neither the cluster's key nor TLS"
            " protects.",
            self._sessions.unsealed_count,
        )
        yield counter(
            f"{_OWN}unproved_connections",
            "Connections that were refused because they did not prove to be of the cluster.",
            (("", self._sessions.unproved_count),),
        )
        yield counter(
            f"{_OWN}refused_heartbeats",
            "Heartbeats (UDP) that did not count: forged, repeated, late, or without a seal.",
            (("", self._guards.refused_count),),
        )

    def _of_the_quorum(self) -> Iterator[Family]:
        quorum = self._controller.quorum
        standing = quorum.node.standing
        state = _STATES[type(standing.role)]
        help_text = "1 for the Raft state of this controller, which the label names."
        for name, tail in (
            # The JMX exporter's rules call the label `state`, Strimzi's reporter `current_state`.
            (f"{_RAFT}current_state_info", labels(state=state, current_state=state)),
            (f"{_RAFT_OF_STRIMZI}current_state", labels(current_state=state)),
        ):
            yield gauge(name, help_text, ((tail, 1),))
        for name, help_text, value in (
            ("current_leader", "The leader's node id; -1 while it is not known.", quorum.leader_id),
            ("current_epoch", "The newest epoch that this controller knows.", quorum.epoch),
            (
                "current_vote",
                "The id of the node that got this controller's vote in this epoch; -1 for none.",
                standing.voted_id,
            ),
            (
                "high_watermark",
                "End of the part of the metadata log that is known to be committed.",
                quorum.high_watermark,
            ),
            ("log_end_offset", "End of this copy of the metadata log.", quorum.log_end_offset),
            ("number_of_voters", "Number of voters.", len(standing.voters.ids)),
            (
                "commit_latency_avg",
                "Milliseconds from append to commit, as a moving average of about 16 decisions.",
                self._controller.tally.commit_average_us / 1000,
            ),
        ):
            yield gauge(_RAFT + name, help_text, value)
            yield gauge(_RAFT_OF_STRIMZI + name, help_text, value)
        yield gauge(
            f"{_OWN}unsnapshotted_bytes",
            "Bytes that the metadata log has grown by since its newest snapshot.",
            quorum.unsnapshotted_bytes,
        )

    def _of_voters(self) -> Iterator[Family]:
        quorum = self._controller.quorum
        role = quorum.node.standing.role
        followers: dict[int, Progress] = role.followers if isinstance(role, Leading) else {}
        now_ms, end = self._controller.runtime.monotonic_ms(), quorum.log_end_offset
        yield gauge(
            f"{_OWN}voter_lag",
            "Records of the metadata log that another voter lacks, as the leader knows it.",
            [(labels(voter=each), end - max(0, one.end_offset)) for each, one in followers.items()],
        )
        yield gauge(
            f"{_OWN}voter_fetch_age_ms",
            "Milliseconds since another voter last fetched from the leader.",
            [(labels(voter=each), now_ms - one.heard_ms) for each, one in followers.items()],
        )
