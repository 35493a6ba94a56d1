"""Reads the product's state for the invariants: the only module that knows its private parts."""

from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from minikafka.broker.forward.folding import SourceState
from minikafka.broker.forward.forwarder import Forwarder
from minikafka.broker.forward.source import Source
from minikafka.broker.forward.steps import Plan, Step
from minikafka.broker.partition.partition import Partition
from minikafka.broker.partitions import Partitions
from minikafka.broker.replica.follower import FollowerReplica
from minikafka.broker.replica.leader import LeaderReplica
from minikafka.broker.server import Broker
from minikafka.controller.api.authorizing import Authorizing
from minikafka.controller.driver import Controller
from minikafka.controller.quorum.effects import Answer
from minikafka.controller.quorum.log_facts import LogEnd
from minikafka.controller.quorum.node import QuorumNode
from minikafka.controller.quorum.raft import RaftQuorum
from minikafka.controller.server import ControllerServer
from minikafka.protocol.acls import Resource
from minikafka.protocol.control.heartbeat import Datagram
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.protocol.control.quorum_messages import Vote, VoteAnswer, VoterKey
from minikafka.protocol.records.batch_header import CONTROL_BIT
from minikafka.protocol.records.records import Record
from minikafka.protocol.types import TopicIdPartition, TopicPartition
from minikafka.runtime.config import from_mapping
from minikafka.runtime.metrics import Collector
from minikafka.security.authorizer import Authorizer
from minikafka.security.authorizer_config import AuthorizerConfig
from minikafka.security.control_seal import DatagramGuards
from minikafka.security.principal import ANONYMOUS, user
from minikafka.storage.compaction import compactor
from minikafka.storage.log import Log

from .loop import PROCESS, Process
from .truth import Seen

NOTHING: Mapping[TopicIdPartition, Partition] = {}


@contextmanager
def watched() -> Iterator[None]:
    """Let each process know the daemon that it runs, from its start, while the block runs."""

    def watching(cls: Any, attribute: str) -> Any:
        construct = cls.__init__

        def init(self: Any, *args: Any, **options: Any) -> None:
            construct(self, *args, **options)
            process = PROCESS.get()
            if process is not None:
                setattr(process, attribute, self)

        return patch.object(cls, "__init__", init)

    with (
        watching(Partitions, "partitions"),
        watching(Broker, "broker"),
        watching(Controller, "controller"),
        watching(Authorizing, "authorizing"),
        watching(RaftQuorum, "quorum"),
        _votes_noted(),
        _grants_noted(),
        _admissions_noted(),
        _compactions_counted(),
        _folds_noted(),
        _sends_noted(),
        _touches_noted(Partition, ("role", "offline_because")),
        _touches_noted(LeaderReplica, ("metadata", "high_watermark")),
        _touches_noted(FollowerReplica, ("metadata", "high_watermark")),
        _touches_noted(Log, ("log_start_offset", "log_end_offset")),
    ):
        yield


def _compactions_counted() -> Any:
    put_in_place = compactor.put_in_place

    def counting(*args: Any) -> None:
        put_in_place(*args)
        process = PROCESS.get()
        if process is not None:
            process.compaction_count += 1
            process.rewritten[args[0]] = None

    return patch.object(compactor, "put_in_place", counting)


class Batch(NamedTuple):
    """A batch of a source partition, and what its fold came to on one replica."""

    partition: Partition
    base_offset: int
    next_offset: int
    waiting: tuple[int, ...]
    """The offsets of records that wait from now on."""
    keyed: tuple[Record, ...]
    """The records that take the place of older ones of their keys."""
    step: Step | None
    outcome: "Outcome | None"
    """The state behind a step."""


class Outcome(NamedTuple):
    """The state of a source partition at some offset, in which all replicas must agree."""

    plans: tuple[Plan, ...]
    """The plans that have not ended."""
    waiting: tuple[int, ...]
    """The offsets that nothing is decided about."""
    moved: tuple[tuple[int, int], ...]
    """The offsets of records whose times were changed, and these times."""

    def of(self, start: int, needed: Container[int]) -> "Outcome":
        """Return what a replica knows whose log begins at `start`, and may lack what is over."""
        return Outcome(
            tuple(plan for plan in self.plans if max(plan.offsets) >= start),
            tuple(offset for offset in self.waiting if offset >= start and offset in needed),
            tuple(each for each in self.moved if each[0] >= start and each[0] in needed),
        )


class Sent(NamedTuple):
    """A plan that is being sent, or fenced."""

    partition: Partition
    plan: Plan


def _folds_noted() -> Any:
    fold = SourceState.fold

    def noting(self: SourceState, header: Any, found: Any, rule: Any, on_unread: Any) -> Any:
        folded = fold(self, header, found, rule, on_unread)
        process = PROCESS.get()
        if process is not None:
            step, is_control = folded.step, header.attributes & CONTROL_BIT
            replacing = found if rule.replaces and not is_control else ()
            noted = (
                header.base_offset,
                header.next_offset,
                tuple(entry.offset for entry in folded.entries),
                tuple(each for each in replacing if each.key is not None),
                step,
                None if step is None else _outcome(self),
            )
            process.folded.append((self, noted))
        return folded

    return patch.object(SourceState, "fold", noting)


def _outcome(state: SourceState) -> Outcome:
    plans, moved = tuple(state.plans.values()), tuple(sorted(state.moved.items()))
    undecided = range(state.settled.lowest, state.folded)
    return Outcome(plans, tuple(each for each in undecided if each not in state.settled), moved)


def _sends_noted() -> Any:
    ask = Forwarder._ask

    async def noting(self: Forwarder, lane: Any, sending: Any, batches: Any) -> None:
        process = PROCESS.get()
        if process is not None:
            for each in sending:
                process.sent.append(Sent(each.source.partition, each.queue.plans[0]))
        await ask(self, lane, sending, batches)

    return patch.object(Forwarder, "_ask", noting)


def folded_batches(process: Process) -> list[Batch]:
    """Return the batches of source partitions that a broker has folded since the last call."""
    if not process.folded:
        return []
    noted, process.folded = process.folded, []
    by_state = {each.schedule.state: each.partition for each in sources_of(process)}
    return [Batch(by_state[state], *one) for state, one in noted if state in by_state]


def sent_plans(process: Process) -> list[Sent]:
    """Return the plans that a broker has sent since the last call."""
    if not process.sent:
        return []
    sent, process.sent = process.sent, []
    return sent


def rewritten_logs(process: Process) -> list[TopicIdPartition]:
    """Return the partitions of which a segment was rewritten since the last call."""
    if not process.rewritten:
        return []
    rewritten, process.rewritten = process.rewritten, {}
    return [each.key for each in partitions_of(process).values() if each.log in rewritten]


def _touches_noted(cls: type, names: tuple[str, ...]) -> Any:
    """Make each process note the objects of a class of which one of these attributes was set.

    `seen` reads only these attributes, so a step that sets none of them has changed no replica.
    """
    set_attribute = object.__setattr__

    def setting(self: object, name: str, value: object) -> None:
        set_attribute(self, name, value)
        if name in names:
            process = PROCESS.get()
            if process is not None:
                process.touched[self] = None

    return patch.object(cls, "__setattr__", setting)


def _admissions_noted() -> Any:
    admits = DatagramGuards.admits

    def noting(self: DatagramGuards, datagram: Datagram) -> bool:
        counts = admits(self, datagram)
        process = PROCESS.get()
        if counts and process is not None and datagram.tag:
            process.admitted.append((datagram.content, datagram.tag))
        return counts

    return patch.object(DatagramGuards, "admits", noting)


def _grants_noted() -> Any:
    on_request = QuorumNode.on_request

    def noting(self: QuorumNode, ticket: int, request: Any, now_ms: int) -> Any:
        held = self.standing.log.end
        effects = on_request(self, ticket, request, now_ms)
        process = PROCESS.get()
        if process is not None and isinstance(request, Vote) and not request.pre_vote:
            claimed = LogEnd(request.last_epoch, request.end_offset)
            grant = Grant(request.candidate.voter_id, request.epoch, claimed, held)
            answers = [each.answer for each in effects if isinstance(each, Answer)]
            if any(isinstance(each, VoteAnswer) and each.is_granted for each in answers):
                process.grants.append(grant)
        return effects

    return patch.object(QuorumNode, "on_request", noting)


def _votes_noted() -> Any:
    on_answered = QuorumNode.on_answered

    def noting(self: QuorumNode, to: int, request: Any, answer: Any, now_ms: int) -> Any:
        process = PROCESS.get()
        is_vote = isinstance(request, Vote) and not request.pre_vote
        if process is not None and is_vote and answer.is_granted and not answer.error:
            process.votes.append(Granted(to, request.candidate.voter_id, request.epoch))
        return on_answered(self, to, request, answer, now_ms)

    return patch.object(QuorumNode, "on_answered", noting)


def collectors_of(service: Broker | ControllerServer) -> tuple[Collector, ...]:
    """Return the collectors that a daemon's metrics listener reads at a scrape."""
    listener = service.parts.metrics if isinstance(service, Broker) else service.metrics
    assert listener is not None, "metrics.listener is not set"
    return listener._collectors


def partitions_of(process: Process) -> Mapping[TopicIdPartition, Partition]:
    """Return the replicas of a broker process."""
    partitions = process.partitions
    return NOTHING if partitions is None else partitions._partitions


def sources_of(process: Process) -> list[Source]:
    """Return the partitions of delay topics that a broker process forwards or could forward."""
    broker = process.broker
    return [] if broker is None else list(broker.parts.forwarder.sources.values())


def touched_replicas(process: Process) -> list[Partition]:
    """Return the replicas of a broker of which an attribute was set since the last call."""
    touched, process.touched = process.touched, {}
    return [
        each
        for each in partitions_of(process).values()
        if each in touched or each.log in touched or each.role in touched
    ]


def seen(partition: Partition) -> Seen:
    """Return the state of a replica, which differs whenever a step has changed the replica."""
    leader = partition.leader
    return Seen(
        partition,
        leader,
        partition.metadata.leader_epoch,
        partition.high_watermark,
        partition.log.log_start_offset,
        partition.log.log_end_offset,
        leader.metadata.isr if leader is not None else (),
    )


def reads_from_follower(consumer: Any, partition: TopicPartition) -> bool:
    """Return whether a consumer was sent to a replica in its rack."""
    state = consumer._engine.positions.states.get(partition)
    return state is not None and state.nearer.replica >= 0


def image_of_controller(process: Process) -> MetadataImage | None:
    """Return the metadata that a controller knows to be committed."""
    controller = process.controller
    return controller.committed if controller is not None else None


def image_of_broker(process: Process) -> MetadataImage | None:
    """Return a broker's image of the metadata."""
    broker = process.broker
    return broker.parts.follower.image if broker is not None else None


def forgets_acls(process: Process) -> bool:
    """True if a broker or active controller decides by other entries than are in its metadata."""
    broker, controller, authorizer = process.broker, process.controller, None
    if broker is not None:
        image, authorizer = broker.parts.follower.image, broker.parts.edge.authorizer
    elif controller is not None and controller.is_active and process.authorizing is not None:
        image, authorizer = controller.cluster.image, process.authorizing.authorizer
    if authorizer is None:
        return False
    due = Authorizer(from_mapping(AuthorizerConfig, {"allow.everyone.if.no.acl.found": "true"}))
    due.on_metadata(Delta(is_snapshot=True), image)
    names = dict.fromkeys(acl.resource_name for acl in image.acls.values())
    for who in (ANONYMOUS, user("bob")):
        mine, theirs = (each.rights_of(who, "10.0.0.1") for each in (due, authorizer))
        for name in (*names, *(f"{name}-more" for name in names), "nothing"):
            told = theirs.operations(Resource.TOPIC, name)
            if mine.operations(Resource.TOPIC, name) != told:
                return True
    return False


class QuorumSeen(NamedTuple):
    """A controller's part in the quorum, after a step."""

    epoch: int
    is_leading: bool
    high_watermark: int
    log_end: int
    snapshot_end: int
    cut_count: int
    """The number of times that the log was cut since it was opened."""


class Granted(NamedTuple):
    """A vote that a candidate has received."""

    voter_id: int
    candidate_id: int
    epoch: int


class Grant(NamedTuple):
    """A vote that a voter gives, with the log end that the candidate claimed."""

    candidate_id: int
    epoch: int
    claimed: LogEnd
    """The candidate's last record."""
    held: LogEnd
    """The voter's last record."""


def voter_key(process: Process | None, voter_id: int) -> VoterKey:
    """Return a controller's identity as a voter; if it does not run, only its id is known."""
    quorum = process.quorum if process is not None else None
    return VoterKey(voter_id) if quorum is None else quorum.node.standing.settings.me


def quorum_of(process: Process) -> QuorumSeen | None:
    """Return the controller's state in the quorum; None before it has one."""
    quorum = process.quorum
    if quorum is None:
        return None
    at = quorum.node.standing
    snapshot = at.log.snapshot
    return QuorumSeen(
        at.epoch,
        at.leader_id == at.me,
        quorum.high_watermark,
        quorum.log_end_offset,
        snapshot.end_offset if snapshot is not None else 0,
        at.log._cuts,
    )


def holds_lease(process: Process) -> bool | None:
    """Return whether a broker's lease lets it act as a leader now; None if it needs no lease."""
    if process.partitions is None:
        return None
    host = process.partitions.host
    lease = host.lease
    return lease.is_held(host.monotonic_ms()) if lease.is_required else None


def quorum_key(process: Process) -> tuple[object, ...] | None:
    """Return a cheap value that changes whenever the result of `quorum_of` may change."""
    quorum = process.quorum
    if quorum is None:
        return None
    at = quorum.node.standing
    log = at.log
    return (at.epoch, at.role, quorum.high_watermark, quorum.log_end_offset, log._cuts)


def granted_votes(process: Process) -> list[Granted]:
    """Return the votes that this candidate has received since the last call."""
    given, process.votes = process.votes, []
    return given


def grants_of(process: Process) -> list[Grant]:
    """Return the votes that this voter has given since the last call."""
    if not process.grants:
        return []
    given, process.grants = process.grants, []
    return given


def admitted_datagrams(process: Process) -> list[tuple[bytes, bytes]]:
    """Return content and tag of the datagrams that counted since the last call."""
    admitted, process.admitted = process.admitted, []
    return admitted


def active(cluster: Any) -> Controller | None:
    """Return the active controller object of the newest epoch, or None."""
    found: Controller | None = None
    for daemon in cluster.controllers.values():
        process = daemon.process
        controller = process.controller if process is not None and process.alive else None
        if controller is None or not controller._is_active:
            continue
        if found is None or controller.quorum.epoch > found.quorum.epoch:
            found = controller
    return found
