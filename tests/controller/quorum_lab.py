"""Voters without disks, networks and clocks: the pure quorum, and a model of its surroundings.

A `Host` does what a node's effects say, one step at a time: a save, a flush and a message are
each under way until somebody finishes them, and a crash loses what is not finished. After every
step the invariants of the quorum are checked.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minikafka.controller.quorum import effects as e
from minikafka.controller.quorum.leading import Leading
from minikafka.controller.quorum.log_facts import LogEnd
from minikafka.controller.quorum.node import QuorumNode
from minikafka.controller.quorum.quorum_state import QuorumState
from minikafka.controller.quorum.standing import Standing
from minikafka.controller.quorum.voters import QuorumSettings
from minikafka.protocol.control import quorum_messages as m
from minikafka.protocol.control.messages import SnapshotId

CLUSTER = "cluster"
WALL_MS = 1_700_000_000_000
Entry = tuple[int, str]
"""Epoch and value."""


class MemoryLog:
    """A log with a page cache."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """All that was ever committed or written; those before `start_offset` are not readable."""
        self.start_offset = 0
        self.stable_offset = 0
        self.snapshot: SnapshotId | None = None

    @property
    def end(self) -> LogEnd:
        return self._end_at(len(self.entries))

    @property
    def stable(self) -> LogEnd:
        return self._end_at(self.stable_offset)

    def _end_at(self, offset: int) -> LogEnd:
        return LogEnd(self.entries[offset - 1][0] if offset else -1, offset)

    def end_of_epoch(self, epoch: int) -> m.EpochEnd | None:
        offset = sum(each <= epoch for each, _ in self.entries)
        if offset == 0 or (offset <= self.start_offset and not self._is_snapshot(epoch, offset)):
            return None
        return m.EpochEnd(self.entries[offset - 1][0], offset)

    def _is_snapshot(self, epoch: int, offset: int) -> bool:
        snapshot = self.snapshot
        return snapshot is not None and (epoch, offset) >= (snapshot.epoch, snapshot.end_offset)

    def truncate(self, offset: int) -> None:
        del self.entries[offset:]
        self.stable_offset = min(self.stable_offset, offset)

    def take_snapshot(self, end_offset: int) -> None:
        self.snapshot = SnapshotId(end_offset, self.entries[end_offset - 1][0])
        self.start_offset = end_offset


@dataclass
class Host:
    """One machine: the contents of its disk, and its process, if one runs."""

    lab: "Lab"
    node_id: int
    directory_id: bytes
    state: QuorumState = field(default_factory=lambda: QuorumState(CLUSTER))
    log: MemoryLog = field(default_factory=MemoryLog)
    node: QuorumNode | None = None
    incarnation: int = 0
    high_watermark: int = 0
    failed: str | None = None
    noted: list[str] = field(default_factory=list)
    effects: deque[e.QuorumEffect] = field(default_factory=deque)
    saving: QuorumState | None = None
    is_leader: bool = False
    tickets: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    auto: bool = True
    """Saves finish at once."""
    flushes: bool = True
    """And flushes."""

    @property
    def role(self) -> str:
        return "Down" if self.node is None else type(self.node.standing.role).__name__

    def start(self, *, abstains: bool = False) -> None:
        lab = self.lab
        settings = QuorumSettings(
            me=m.VoterKey(self.node_id, self.directory_id), voters=tuple(lab.voters)
        )
        self.incarnation += 1
        self.effects.clear()
        self.saving, self.is_leader = None, False
        self.tickets.clear()
        self.high_watermark = self.log.snapshot.end_offset if self.log.snapshot else 0
        standing = Standing(
            settings,
            self.state,
            self.log,
            lab.rng.randrange,
            abstains=abstains,
            wall_ms=lambda: WALL_MS + lab.now_ms,
        )
        self.node = QuorumNode(standing)
        self.take(self.node.on_started(lab.now_ms))

    def crash(self) -> None:
        """Cut the power: unstable data is lost, in whole or in part."""
        self.node = None
        self.is_leader = False
        kept = self.lab.rng.randint(self.log.stable_offset, len(self.log.entries))
        del self.log.entries[kept:]
        self.log.stable_offset = kept
        if self.saving is not None and self.lab.rng.random() < 0.5:
            self.state = self.saving
        self.saving = None

    def wipe(self) -> None:
        """Another disk."""
        self.crash()
        self.state, self.log = QuorumState(None), MemoryLog()
        self.directory_id = b"new disk"

    def take(self, effects: list[e.QuorumEffect]) -> None:
        self.effects.extend(effects)
        while self.effects and self.saving is None and self.node is not None:
            effect = self.effects.popleft()
            if isinstance(effect, e.SaveState):
                self.saving = effect.state
                if self.auto:
                    self.finish_save()
            else:
                self._carry_out(effect)
        self.lab.check()

    def finish_save(self) -> None:
        assert self.saving is not None
        assert self.saving.epoch >= self.state.epoch, "an epoch that goes back"
        self.state, self.saving = self.saving, None
        self.take([])

    def flush(self) -> None:
        if self.node is not None and self.log.stable_offset < len(self.log.entries):
            self.log.stable_offset = len(self.log.entries)
            self.take(self.node.on_stable(self.lab.now_ms))

    def _carry_out(self, effect: e.QuorumEffect) -> None:
        lab, log, node = self.lab, self.log, self.node
        assert node is not None
        match effect:
            case e.Send(to, request):
                ticket = lab.next_ticket()
                lab.asked[ticket] = (self.node_id, self.incarnation, to, request)
                lab.post(self.node_id, to, ("request", ticket, request))
            case e.Answer(ticket, answer):
                self._answer(ticket, answer)
            case e.AnswerWithRecords(ticket, answer, offset, _, up_to):
                if isinstance(node.standing.role, Leading) and node.standing.epoch == answer.epoch:
                    records = repr(log.entries[offset : min(up_to, offset + 5)]).encode()
                    fields = {name: getattr(answer, name) for name in ("high_watermark", "sent_ms")}
                    whole = m.QuorumLogFetched(
                        0, epoch=answer.epoch, leader_id=answer.leader_id, records=records, **fields
                    )
                    self._answer(ticket, whole)
            case e.Append(records):
                entries: list[Entry] = eval(records)
                log.entries.extend(entries)
                if self.flushes:
                    self.flush()
            case e.Truncate(offset):
                log.truncate(offset)
            case e.LoadSnapshot(leader_id, snapshot):
                self._load(lab.hosts[leader_id].log, snapshot)
            case e.Elected(epoch) if (
                isinstance(node.standing.role, Leading) and node.standing.epoch == epoch
            ):
                self.is_leader = True
                lab.on_elected(self, epoch)
            case e.Deposed():
                self.is_leader = False
            case e.Committed(high_watermark):
                assert high_watermark > self.high_watermark, "a high watermark that goes back"
                self.high_watermark = high_watermark
                lab.on_committed(self, high_watermark)
            case e.Noted(_, text):
                self.noted.append(text)
            case e.Failed(why):
                self.failed = why
                self.crash()

    def _answer(self, ticket: int, answer: Any) -> None:
        if isinstance(answer, m.VoteAnswer) and answer.is_granted:
            _, _, _, request = self.lab.asked[ticket]
            if not request.pre_vote:
                self.lab.on_vote(self, request)
        asker = self.lab.asked[ticket][0]
        self.lab.post(self.node_id, asker, ("answer", ticket, answer))

    def _load(self, source: MemoryLog, snapshot: SnapshotId) -> None:
        assert self.node is not None
        assert not self.is_leader, "a leader never loads a snapshot"
        self.log.entries = source.entries[: snapshot.end_offset]
        self.log.stable_offset = snapshot.end_offset
        self.log.take_snapshot(snapshot.end_offset)
        assert self.log.snapshot == snapshot
        self.take(self.node.on_snapshot_loaded())

    def append(self, value: str) -> bool:
        """The leader's client."""
        if (
            self.node is None
            or not self.is_leader
            or not isinstance(self.node.standing.role, Leading)
        ):
            return False
        self.log.entries.append((self.node.standing.role.epoch, value))
        if self.flushes:
            self.flush()
        return True


class Lab:
    """Hosts, the messages between them, and what must always be true."""

    def __init__(self, voters: int = 3, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.now_ms = 1000
        self.voters = list(range(1, voters + 1))
        self.wire: list[tuple[int, int, Any]] = []
        self.asked: dict[int, tuple[int, int, int, Any]] = {}
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[int, int], int] = {}
        self.committed: list[Entry] = []
        self.cut: Callable[[int, int], bool] = lambda source, target: False
        """Returns whether messages from one node to another are lost."""
        self.is_quick = True
        """What is sent arrives within the millisecond, unless somebody delivers by hand."""
        self.told: list[str] | None = None
        """A transcript, if one is kept."""
        self._tickets = 0
        self.hosts = {n: Host(self, n, b"disk %d" % n) for n in self.voters}
        for host in self.hosts.values():
            host.start()

    def next_ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def post(self, source: int, target: int, what: Any) -> None:
        self.wire.append((source, target, what))

    # Steps.

    def deliver(self, place: int = 0) -> None:
        source, target, (kind, ticket, body) = self.wire.pop(place)
        if self.cut(source, target):
            self.lose(source, target, kind, ticket)
            return
        if self.told is not None:
            self.told.append(f"{source} -> {target} {tell(body)}")
        host = self.hosts[target]
        if kind == "request":
            if host.node is None:
                self.lose(source, target, kind, ticket)
            else:
                host.take(host.node.on_request(ticket, body, self.now_ms))
        else:
            asker, incarnation, to, request = self.asked[ticket]
            if host.node is not None and host.incarnation == incarnation and asker == target:
                host.take(host.node.on_answered(to, request, body, self.now_ms))

    def lose(self, source: int, target: int, kind: str, ticket: int) -> None:
        """Lose a request or its answer; the sender notices it in the end."""
        asker, incarnation, to, request = self.asked[ticket]
        host = self.hosts[asker]
        if host.node is not None and host.incarnation == incarnation:
            host.take(host.node.on_unanswered(to, request, self.now_ms))

    def advance(self, ms: int) -> None:
        """Time passes for everybody."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            due = [
                due_ms
                for host in self.hosts.values()
                if host.node is not None and (due_ms := host.node.next_deadline_ms()) is not None
            ]
            self.now_ms = min(end_ms, max(self.now_ms + 1, min(due, default=end_ms)))
            for host in self.hosts.values():
                if host.node is not None:
                    host.take(host.node.on_deadline(self.now_ms))
            if self.is_quick:
                self.settle()

    def settle(self, limit: int = 10_000) -> None:
        """Everything under way arrives."""
        for _ in range(limit):
            if not self.wire:
                return
            self.deliver()

    def run(self, ms: int) -> None:
        """Time passes and everything arrives within a millisecond."""
        self.settle()
        self.advance(ms)

    def kill(self, node_id: int) -> None:
        """kill -9: the others see their connections end, and a new one refused."""
        self.hosts[node_id].crash()
        for host in self.hosts.values():
            if host.node is not None:
                host.take(host.node.on_peer_lost(node_id))
        for host in self.hosts.values():
            if host.node is not None:
                host.take(host.node.on_peer_refused(node_id, self.now_ms))

    @property
    def leader(self) -> Host:
        """The one of the newest epoch."""
        found = [each for each in self.hosts.values() if each.is_leader and each.node is not None]
        assert found, {each.node_id: each.role for each in self.hosts.values()}
        return max(
            found, key=lambda host: host.node.standing.epoch if host.node is not None else -1
        )

    # What must always be true: invariants 16 and 17.

    def on_elected(self, host: Host, epoch: int) -> None:
        assert self.leaders.setdefault(epoch, host.node_id) == host.node_id, "two leaders"
        assert host.state.epoch == epoch, "leads an epoch that is not on its disk"
        assert host.log.entries[: len(self.committed)] == self.committed, "a leader lacks records"
        assert host.append(f"elected {epoch}")

    def on_vote(self, host: Host, request: m.Vote) -> None:
        chosen = request.candidate.voter_id
        key = (host.node_id, request.epoch)
        assert self.votes.setdefault(key, chosen) == chosen, "two votes in one epoch"
        state = host.state
        assert (state.epoch, state.voted_id) == (request.epoch, chosen), "answered, then saved"

    def on_committed(self, host: Host, high_watermark: int) -> None:
        entries = host.log.entries[:high_watermark]
        assert len(entries) == high_watermark, "committed, and not there"
        common = min(high_watermark, len(self.committed))
        assert entries[:common] == self.committed[:common], "another history was committed"
        if high_watermark > len(self.committed):
            holders = [
                each
                for each in self.hosts.values()
                if each.log.stable_offset >= high_watermark
                and each.log.entries[:high_watermark] == entries
            ]
            assert len(holders) > len(self.voters) // 2, "committed without a majority"
            self.committed = entries

    def check(self) -> None:
        for host in self.hosts.values():
            assert host.high_watermark <= len(host.log.entries) or host.node is None
            if host.node is not None:
                at = host.high_watermark
                assert host.log.entries[:at] == self.committed[:at], "committed and changed"
        logs = [host.log.entries for host in self.hosts.values()]
        for one in logs:
            for other in logs:
                for offset in range(min(len(one), len(other)) - 1, -1, -1):
                    if one[offset][0] == other[offset][0]:
                        assert one[: offset + 1] == other[: offset + 1], "logs do not match"
                        break


def tell(message: Any) -> str:
    """A message in a few words."""
    match message:
        case m.Vote():
            kind = "would you vote" if message.pre_vote else "vote"
            end = f"my log ends at {message.end_offset} in epoch {message.last_epoch}"
            return f"{kind} for {message.candidate.voter_id} in epoch {message.epoch}? {end}"
        case m.VoteAnswer():
            said = f"refused: {message.message}" if message.error else "no"
            follows = f", {message.leader_id} leads" if message.leader_id >= 0 else ""
            return "yes" if message.is_granted else said + follows
        case m.BeginQuorumEpoch():
            return f"I lead epoch {message.epoch}"
        case m.EndQuorumEpoch():
            order = ", ".join(str(each) for each in message.successors)
            return f"epoch {message.epoch} is over; first {order}"
        case m.FetchQuorumLog():
            after = f"after epoch {message.last_epoch}" if message.offset else "from the start"
            want = "" if message.max_bytes else ", only to be heard of"
            return f"fetch from {message.offset}, {after}{want}"
        case m.QuorumLogFetched():
            if message.error:
                return f"refused: {message.message}"
            if message.snapshot is not None:
                return f"load the snapshot up to {message.snapshot.end_offset}"
            if message.diverging is not None:
                parting = message.diverging
                return f"we part: epoch {parting.epoch} ends at {parting.end_offset}"
            records = eval(message.records) if message.records else []
            values = ", ".join(f"{value}/{epoch}" for epoch, value in records) or "nothing new"
            return f"{values}; committed below {message.high_watermark}"
    return "noted"
