"""A cluster of pure replicas: in-memory logs, a controller that compares and swaps, a network in
which every message is delivered when the test says so. No loop, no clock, no disk.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from minikafka.broker.replica.follower import (
    Append,
    AskLeaderOffsets,
    Fetched,
    FetchPosition,
    FollowerReplica,
    Halted,
    HighWatermarkMoved,
    LogStartRaised,
    OffsetsLost,
    Phase,
    RestartAt,
    TruncateTo,
)
from minikafka.broker.replica.follower import Effects as FollowerEffects
from minikafka.broker.replica.history import check_leader_epoch, find_divergence
from minikafka.broker.replica.leader import Effects as LeaderEffects
from minikafka.broker.replica.leader import (
    EpochStarted,
    HighWatermarkAdvanced,
    IsrChanged,
    LeaderReplica,
    ProposeIsr,
)
from minikafka.broker.replica.state import KnownBrokers, PartitionMetadata
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import OffsetAndEpoch

LAG_MAX_MS = 10_000
Entry = tuple[int, str]
"""One record: the epoch of its batch, and its value."""


class MemoryLog:
    """A log of one-record batches, with the interface that replication uses."""

    def __init__(self, epochs: str = "", *, start: int = 0) -> None:
        """`epochs` has one digit per record: the epoch of its batch."""
        self.log_start_offset = self.first_offset = start
        self.entries: list[Entry] = []
        self.epochs: list[tuple[int, int]] = []
        for position, epoch in enumerate(epochs):
            self.append((int(epoch), f"{epoch}.{position + start}"))

    @property
    def log_end_offset(self) -> int:
        return self.first_offset + len(self.entries)

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1][0] if self.epochs else -1

    def append(self, entry: Entry) -> None:
        if entry[0] > self.latest_epoch:
            self.assign(entry[0], self.log_end_offset)
        self.entries.append(entry)

    def assign(self, epoch: int, start: int) -> None:
        if epoch == self.latest_epoch:
            return
        self.epochs = [e for e in self.epochs if e[0] < epoch and e[1] < start]
        self.epochs.append((epoch, start))

    def end_offset_for(self, epoch: int) -> OffsetAndEpoch | None:
        if not self.epochs or epoch > self.latest_epoch:
            return None
        if epoch == self.latest_epoch:
            return OffsetAndEpoch(self.log_end_offset, epoch)
        higher = next(start for known, start in self.epochs if known > epoch)
        floor = max((known for known, _ in self.epochs if known <= epoch), default=epoch)
        return OffsetAndEpoch(higher, floor)

    def truncate_to(self, offset: int) -> None:
        del self.entries[max(0, offset - self.first_offset) :]
        self.epochs = [e for e in self.epochs if e[1] < offset]

    def restart_at(self, offset: int) -> None:
        self.entries.clear()
        self.epochs.clear()
        self.log_start_offset = self.first_offset = offset

    def raise_start(self, offset: int) -> None:
        """What lies below stays on the disk; the epochs of it are forgotten."""
        self.log_start_offset = offset
        later = [e for e in self.epochs if e[1] > offset]
        around = [epoch for epoch, start in self.epochs if start <= offset]
        self.epochs = [*((epoch, offset) for epoch in around[-1:]), *later]

    def read(self, offset: int) -> list[Entry]:
        return self.entries[offset - self.first_offset :]

    def numbered(self) -> Iterator[tuple[int, Entry]]:
        yield from enumerate(self.entries, self.first_offset)

    def __str__(self) -> str:
        return "".join(str(epoch) for epoch, _ in self.entries)


@dataclass
class Request:
    """A fetch under way, and which start of which broker sent it."""

    follower: int
    broker_epoch: int
    leader: int
    position: FetchPosition


@dataclass
class Answer:
    request: Request
    fetched: Fetched[Entry]


@dataclass
class Proposal:
    leader: int
    broker_epoch: int
    proposal: ProposeIsr


@dataclass
class Verdict:
    proposal: Proposal
    error: ErrorCode
    metadata: PartitionMetadata


Message = Request | Answer | Proposal | Verdict


@dataclass
class Controller:
    """The partition's record, and who is alive: A5 and A6 in small, without ELR."""

    metadata: PartitionMetadata
    epochs: dict[int, int]
    fenced: set[int] = field(default_factory=set)
    next_broker_epoch: int = 100

    def known_brokers(self) -> KnownBrokers:
        return KnownBrokers(
            dict(self.epochs), {b: e for b, e in self.epochs.items() if b not in self.fenced}
        )

    def alter(self, sender: int, broker_epoch: int, proposal: ProposeIsr) -> ErrorCode:
        """A6, in its order."""
        now = self.metadata
        if self.epochs[sender] != broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if proposal.leader_epoch < now.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if sender != now.leader:
            return ErrorCode.INVALID_REQUEST
        if proposal.partition_epoch < now.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for broker, epoch in proposal.isr:
            if broker in self.fenced or epoch not in (-1, self.epochs[broker]):
                return ErrorCode.INELIGIBLE_REPLICA
        self.change(isr=tuple(broker for broker, _ in proposal.isr), recovering=False)
        return ErrorCode.NONE

    def change(self, **changes: object) -> None:
        changed = replace(self.metadata, **changes)  # type: ignore[arg-type]
        self.metadata = replace(changed, partition_epoch=self.metadata.partition_epoch + 1)

    def lead(self, leader: int, **changes: object) -> None:
        epoch = self.metadata.leader_epoch + 1
        self.change(**{"leader": leader, "leader_epoch": epoch, **changes})

    def fence(self, broker: int) -> None:
        """Out of the ISR, unless it is the last there; another member leads."""
        self.fenced.add(broker)
        now = self.metadata
        isr = tuple(b for b in now.isr if b != broker) or now.isr
        if broker == now.leader:
            self.lead(self.candidate(isr), isr=isr)
        elif isr != now.isr:
            self.change(isr=isr)

    def unfence(self, broker: int) -> None:
        self.fenced.discard(broker)
        if self.metadata.leader < 0 and broker in self.metadata.isr:
            self.lead(broker)

    def candidate(self, isr: tuple[int, ...]) -> int:
        alive = (b for b in self.metadata.replicas if b in isr and b not in self.fenced)
        return next(alive, -1)

    def prefer(self, broker: int) -> None:
        """Leadership moves to a living member of the ISR."""
        if broker in self.metadata.isr and broker not in self.fenced:
            self.lead(broker)

    def elect_uncleanly(self, broker: int) -> None:
        epoch = self.metadata.leader_epoch + 1
        self.lead(broker, isr=(broker,), recovering=True, unclean_epoch=epoch)


class Broker:
    """One replica: a log that survives a crash, and a role that does not."""

    def __init__(self, broker_id: int, story: list[str] | None = None) -> None:
        self.id = broker_id
        self.log = MemoryLog()
        self.broker_epoch = broker_id
        self.brokers = KnownBrokers()
        self.high_watermark = 0
        self.checkpointed = 0
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None
        self.story: list[str] = [] if story is None else story
        self.outbox: list[ProposeIsr] = []
        self.is_alive = True

    @property
    def metadata_epoch(self) -> int:
        role = self.leader or self.follower
        return -1 if role is None else role.metadata.leader_epoch

    def on_metadata(self, metadata: PartitionMetadata, brokers: KnownBrokers, now_ms: int) -> None:
        self.brokers.epochs, self.brokers.eligible = brokers.epochs, brokers.eligible
        if metadata.leader == self.id:
            if self.leader is None:
                self.leader = LeaderReplica(self.id, self.brokers, LAG_MAX_MS, self.high_watermark)
                self.follower = None
            end = self.log.log_end_offset
            self.carry_out_leader(self.leader.on_metadata(metadata, end, now_ms))
            self.carry_out_leader(self.leader.on_brokers_changed(now_ms))
            return
        if self.follower is None:
            if self.leader is not None and (
                metadata.partition_epoch <= self.leader.metadata.partition_epoch
            ):
                return
            self.follower, self.leader = FollowerReplica(self.high_watermark), None
        self.follower.on_metadata(metadata)

    def append(self, value: str, now_ms: int) -> int:
        assert self.leader is not None
        offset = self.log.log_end_offset
        self.log.append((self.leader.metadata.leader_epoch, value))
        self.carry_out_leader(self.leader.on_appended(offset + 1, now_ms))
        return offset

    def serve(self, request: Request, now_ms: int) -> Fetched[Entry]:
        """What the leader does with a fetch (scenario B-29), in one step."""
        leader, position = self.leader, request.position
        if error := check_leader_epoch(position.leader_epoch, self.metadata_epoch):
            return Fetched(error)
        if leader is None or leader.is_stale_incarnation(request.follower, request.broker_epoch):
            return Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        diverging = find_divergence(self.log, position.offset, position.last_fetched_epoch)
        if isinstance(diverging, ErrorCode):
            return Fetched(diverging)
        start = self.log.log_start_offset
        if diverging is not None:
            return Fetched(
                high_watermark=leader.high_watermark, log_start_offset=start, diverging=diverging
            )
        entries = self.log.read(position.offset)
        answer = Fetched(
            high_watermark=leader.high_watermark,
            log_start_offset=start,
            batches=entries,
            first_offset=position.offset if entries else -1,
            next_offset=position.offset + len(entries) if entries else -1,
        )
        self.carry_out_leader(
            leader.on_follower_fetched(
                request.follower, position.offset, now_ms, request.broker_epoch
            )
        )
        return answer

    def on_fetched(self, answer: Answer, now_ms: int) -> None:
        if self.follower is not None:
            effects = self.follower.on_fetched(
                answer.request.position, answer.fetched, self.log, now_ms
            )
            self.carry_out_follower(effects, answer.fetched)

    def carry_out_leader(self, effects: LeaderEffects) -> None:
        for effect in effects:
            match effect:
                case EpochStarted(epoch, start):
                    self.log.assign(epoch, start)
                    self.story.append(f"{self.id} leads epoch {epoch} from {start}")
                case HighWatermarkAdvanced(offset):
                    self.story.append(f"{self.id} high_watermark {self.high_watermark} -> {offset}")
                    self.high_watermark = offset
                case ProposeIsr():
                    self.story.append(f"{self.id} proposes isr {[b for b, _ in effect.isr]}")
                    self.outbox.append(effect)
                case IsrChanged(isr):
                    self.story.append(f"{self.id} isr {list(isr)}")
        if self.leader is not None:
            self.leader.check_invariants()

    def carry_out_follower(self, effects: FollowerEffects, fetched: Fetched[Entry]) -> None:
        assert self.follower is not None
        for effect in effects:
            match effect:
                case Append():
                    self.story.append(f"{self.id} appends {len(fetched.batches)}")
                    for entry in fetched.batches:
                        self.log.append(entry)
                case TruncateTo(offset):
                    end = self.log.log_end_offset
                    self.story.append(f"{self.id} truncates {end} -> {offset}")
                    self.log.truncate_to(offset)
                case RestartAt(offset):
                    self.story.append(f"{self.id} restarts at {offset}")
                    self.log.restart_at(offset)
                case HighWatermarkMoved(offset):
                    self.story.append(f"{self.id} high_watermark {self.high_watermark} -> {offset}")
                    self.high_watermark = offset
                case LogStartRaised(offset):
                    self.story.append(f"{self.id} log start -> {offset}")
                    self.log.raise_start(offset)
                case AskLeaderOffsets():
                    self.story.append(f"{self.id} asks for the leader's offsets")
                case OffsetsLost(start, end):
                    self.story.append(f"{self.id} lost offsets {start} to {end - 1}")
                case Halted(why):
                    self.story.append(f"{self.id} halted: {why}")
        self.follower.check_invariants(self.log)

    def crash(self) -> None:
        """kill -9: the page cache, and so the log, survives; the role and newest HW do not."""
        self.is_alive, self.leader, self.follower = False, None, None
        self.high_watermark = min(self.checkpointed, self.log.log_end_offset)
        self.outbox.clear()


class Cluster:
    """Three brokers, their controller, and the messages under way."""

    def __init__(self, *, min_isr: int = 2, brokers: tuple[int, ...] = (1, 2, 3)) -> None:
        metadata = PartitionMetadata(brokers[0], 0, 0, brokers, brokers, min_isr=min_isr)
        self.controller = Controller(metadata, {b: b for b in brokers})
        self.story: list[str] = []
        self.brokers = {b: Broker(b, self.story) for b in brokers}
        self.messages: list[Message] = []
        self.now_ms = 0

    def publish(self, *to: int) -> None:
        """Metadata as it is now reaches these brokers; what they missed they never see."""
        for broker_id in to or tuple(self.brokers):
            broker = self.brokers[broker_id]
            if broker.is_alive:
                broker.on_metadata(
                    self.controller.metadata, self.controller.known_brokers(), self.now_ms
                )
                self._collect(broker)

    def fetch(self, broker_id: int) -> Request | None:
        """The follower sends its next fetch, if it has one to send."""
        broker = self.brokers[broker_id]
        if not broker.is_alive or broker.follower is None:
            return None
        position = broker.follower.next_fetch(broker.log, self.now_ms)
        if position is None:
            return None
        leader = broker.follower.metadata.leader
        request = Request(broker_id, broker.broker_epoch, leader, position)
        self.messages.append(request)
        return request

    def deliver(self, message: Message) -> None:
        self.messages.remove(message)
        match message:
            case Request():
                leader = self.brokers[message.leader]
                if leader.is_alive:
                    fetched = leader.serve(message, self.now_ms)
                    self.messages.append(Answer(message, fetched))
                    self._collect(leader)
            case Answer():
                follower = self.brokers[message.request.follower]
                if follower.is_alive and follower.broker_epoch == message.request.broker_epoch:
                    follower.on_fetched(message, self.now_ms)
                    self._answer_offsets(follower)
            case Proposal():
                error = self.controller.alter(
                    message.leader, message.broker_epoch, message.proposal
                )
                self.messages.append(Verdict(message, error, self.controller.metadata))
            case Verdict():
                self._on_verdict(message)

    def _answer_offsets(self, follower: Broker) -> None:
        """ListOffsets at the leader, at once."""
        machine = follower.follower
        if machine is None or machine.phase is not Phase.ASKING:
            return
        log = self.brokers[machine.metadata.leader].log
        effects = machine.on_leader_offsets(log.log_start_offset, log.log_end_offset, follower.log)
        follower.carry_out_follower(effects, Fetched())

    def _on_verdict(self, verdict: Verdict) -> None:
        broker, proposal = self.brokers[verdict.proposal.leader], verdict.proposal.proposal
        if broker.leader is None or broker.broker_epoch != verdict.proposal.broker_epoch:
            return
        if verdict.error:
            effects = broker.leader.on_proposal_failed(proposal, verdict.error, self.now_ms)
        else:
            effects = broker.leader.on_proposal_accepted(proposal, verdict.metadata, self.now_ms)
        broker.carry_out_leader(effects)
        self._collect(broker)

    def _collect(self, broker: Broker) -> None:
        for proposal in broker.outbox:
            self.messages.append(Proposal(broker.id, broker.broker_epoch, proposal))
        broker.outbox.clear()

    def settle(self, rounds: int = 12) -> None:
        """Deliver everything, publish, fetch: until nothing more would happen."""
        for _ in range(rounds):
            self.publish()
            for broker_id in self.brokers:
                self.fetch(broker_id)
            while self.messages:
                self.deliver(self.messages[0])

    def crash(self, broker_id: int) -> None:
        self.brokers[broker_id].crash()

    def restart(self, broker_id: int) -> None:
        """A new incarnation over the same directory."""
        broker = self.brokers[broker_id]
        self.controller.next_broker_epoch += 1
        broker.broker_epoch = self.controller.epochs[broker_id] = self.controller.next_broker_epoch
        broker.is_alive = True

    def take_story(self) -> list[str]:
        """What happened since the last call, in order."""
        lines = list(self.story)
        self.story.clear()
        return lines
