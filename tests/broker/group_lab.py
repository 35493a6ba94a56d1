"""A group without a broker: its log is a list, the test sets its clock, clients have short names.

It carries decisions out as `coordinator/groups.py` does. A failover makes a new group from the log.
"""

from dataclasses import dataclass, field
from typing import assert_never

from minikafka.broker.coordinator.group.classic import ClassicGroup
from minikafka.broker.coordinator.group.config import GroupConfig
from minikafka.broker.coordinator.group.phases import Now, Phase
from minikafka.broker.coordinator.group.state import GroupsState
from minikafka.broker.coordinator.group.values import (
    Began,
    Effects,
    Join,
    Joined,
    Joins,
    Protocol,
    Reply,
    Store,
    Sync,
    Synced,
    Ticket,
    Who,
)
from minikafka.protocol.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from minikafka.protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    UnknownRecord,
    decode_group_record,
    encode_record,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.runtime.config import from_mapping

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 30_000


@dataclass
class Client:
    """One application that joins the group."""

    name: str
    protocols: tuple[str, ...] = ("range",)
    topics: tuple[str, ...] = ("t",)
    instance_id: str | None = None
    member_id: str = ""
    generation: int = -1
    told: list[Joined | Synced] = field(default_factory=list)
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    version: int = 9
    protocol_type: str = "consumer"

    @property
    def who(self) -> Who:
        return Who(self.member_id, self.instance_id)

    def spoken(self) -> tuple[Protocol, ...]:
        said = ConsumerProtocolSubscription(topics=list(self.topics))
        return tuple(Protocol(name, encode_subscription(said)) for name in self.protocols)


class GroupLab:
    """One group, its clients, its log."""

    def __init__(self, *, initial_rebalance_delay_ms: int = 0, max_size: int = 1_000) -> None:
        settings = {
            "group.initial.rebalance.delay.ms": str(initial_rebalance_delay_ms),
            "group.max.size": str(max_size),
        }
        self.config = from_mapping(GroupConfig, settings)
        self.now_ms = 1_000_000
        self.state = GroupsState(self.config)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.clients: dict[str, Client] = {}
        self.refusal = ErrorCode.NONE
        """What the log answers to appends."""
        self.fresh = 0
        self.said: list[str] = []

    @property
    def group(self) -> ClassicGroup:
        return self.state.group(GROUP)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, 1_700_000_000_000 + self.now_ms)

    def client(self, name: str) -> Client:
        return self.clients.setdefault(name, Client(name))

    # Requests.

    def join(self, name: str) -> None:
        """Send JoinGroup, and again if the answer is a new member id or UNKNOWN_MEMBER_ID."""
        for _ in range(3):
            count = len(self.client(name).told)
            self.join_once(name)
            client = self.clients[name]
            error = client.told[-1].error if len(client.told) > count else ErrorCode.NONE
            if error is ErrorCode.UNKNOWN_MEMBER_ID:
                client.member_id = ""
            elif error is not ErrorCode.MEMBER_ID_REQUIRED:
                break

    def join_once(self, name: str) -> None:
        client = self.client(name)
        self.fresh += 1
        join = Join(
            who=client.who,
            client_id=name,
            client_host="/127.0.0.1",
            session_timeout_ms=client.session_ms,
            rebalance_timeout_ms=client.rebalance_ms,
            protocol_type=client.protocol_type,
            protocols=client.spoken(),
            fresh_id=str(self.fresh),
            needs_known_id=client.version >= 4,
            can_skip_assignment=client.version >= 9,
        )
        self.carry_out(self.group.join(join, self.ticket(client, "join"), self.now))

    def sync(self, name: str, assignments: dict[str, bytes] | None = None) -> None:
        """SyncGroup; `assignments` by the names of clients."""
        client = self.clients[name]
        given = [
            (self.clients[each].member_id, value) for each, value in (assignments or {}).items()
        ]
        sync = Sync(who=client.who, generation=client.generation, assignments=given)
        self.carry_out(self.group.sync(sync, self.ticket(client, "sync"), self.now))

    def beat(self, name: str) -> ErrorCode:
        client = self.clients[name]
        return self.group.heartbeat(client.who, client.generation, self.now)

    def leave(self, *names: str) -> list[ErrorCode]:
        leaving = [self.clients[name].who for name in names]
        errors, effects = self.group.leave(leaving, self.now)
        self.carry_out(effects)
        return errors

    def settle(self, *names: str) -> None:
        """Let all join; the leader assigns to each its own name."""
        for name in names:
            self.join(name)
        self.assign()

    def assign(self) -> None:
        """Let all members sync; the leader assigns to each its own name."""
        members = [c for c in self.clients.values() if c.member_id in self.group.roster.members]
        given = {client.name: client.name.encode() for client in members}
        for client in members:
            if client.member_id == self.group.roster.leader:
                self.sync(client.name, given)
            else:
                self.sync(client.name)

    # Time and failures.

    def wait(self, milliseconds: int) -> None:
        """Advance the clock; timers fire at their times."""
        end_ms = self.now_ms + milliseconds
        while self.group.phases.wake_ms <= end_ms:
            self.now_ms = max(self.now_ms, self.group.phases.wake_ms)
            self.carry_out(self.group.phases.on_time(self.now))
        self.now_ms = end_ms

    def fail_over(self) -> None:
        """Let another broker load the log; waiting clients get no answer."""
        self.state = GroupsState(self.config)
        for offset, (key, value) in enumerate(self.log):
            record = decode_group_record(key, value)
            assert not isinstance(record, UnknownRecord)
            self.state.apply(record, offset)
        self.state.complete_loading()
        self.carry_out(self.group.phases.on_loaded(self.now))

    # Carrying out.

    def ticket(self, client: Client, what: str) -> Ticket:
        def answer(said: Joined | Synced) -> None:
            client.told.append(said)
            if isinstance(said, Joined):
                client.member_id = said.member_id or client.member_id
                if not said.error:
                    client.generation = said.generation
            self.said.append(f"{client.name} <- {what}: {told(said, self.name_of)}")

        return answer

    def name_of(self, member_id: str) -> str:
        """Return a member id without its random part."""
        for client in self.clients.values():
            if client.member_id == member_id:
                return client.name
        return member_id.rpartition("-")[0] + " as it was" if member_id else "nobody"

    def carry_out(self, effects: Effects) -> None:
        for effect in effects:
            match effect:
                case Reply(to, answer):
                    to(answer)
                case Store():
                    self.store(effect)
                case Joins() | Began():
                    pass  # For the log of a broker.
                case _:
                    assert_never(effect)

    def store(self, store: Store) -> None:
        if self.refusal:
            self.said.append(f"log refuses: {self.refusal.name}")
            for reply in store.then:
                reply.to(reply.answer.failed(self.refusal))
            self.carry_out(self.group.on_store_refused(self.now))
            return
        value = store.value
        members = " ".join(
            f"{self.name_of(each.member_id)}={bytes(each.assignment).decode() or '-'}"
            for each in value.members
        )
        what = f"generation {value.generation} {value.protocol or '-'} [{members}]"
        self.said.append(f"log: {what}")
        record = GroupMetadataRecord(GroupMetadataKey(group=GROUP), value)
        self.log.append(encode_record(record))
        self.state.apply(record, len(self.log) - 1)
        for reply in store.then:
            reply.to(reply.answer)

    def check(self) -> None:
        """What always holds."""
        group = self.group
        assert (group.phase is Phase.EMPTY) <= (not group.roster.members)
        if group.roster.members:
            assert group.roster.leader in group.roster.members
        for instance_id, member_id in group.roster.static_ids.items():
            assert group.roster.members[member_id].instance_id == instance_id
        if group.phase is Phase.STABLE:
            assert all(
                m.joining is None and m.syncing is None for m in group.roster.members.values()
            )


def told(said: Joined | Synced, name_of: "object") -> str:
    """An answer in words."""
    assert callable(name_of)
    if said.error:
        return said.error.name
    if isinstance(said, Synced):
        return said.assignment.decode() or "nothing"
    words = f"generation {said.generation} {said.protocol}, led by {name_of(said.leader)}"
    if said.members:
        words += f" of {' '.join(name_of(each.member_id) for each in said.members)}"
    return words + (", keep the assignment" if said.skip_assignment else "")
