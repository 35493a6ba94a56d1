"""Members as pure machines, a coordinator as a model, users that poll when they like, in any order.

What must hold after every step: no partition is had by two members that are in the group. What must
come about once everybody behaves: each partition is had by somebody.
"""

import random
from dataclasses import dataclass, field

import pytest

from minikafka.client.consumer.assignors import ASSIGNORS, Member
from minikafka.client.consumer.membership import (
    Heartbeat,
    Join,
    Joined,
    JoinedMember,
    Leave,
    Membership,
    Stage,
    Sync,
    Terms,
    Wait,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import TopicPartition

COUNTS = {"s": 3, "t": 4}
ALL = [TopicPartition(topic, index) for topic in COUNTS for index in range(COUNTS[topic])]


@dataclass
class Actor:
    """A member with its user, and what it waits for."""

    name: str
    membership: Membership
    topics: tuple[str, ...] = ("s", "t")
    waits_for: Join | Sync | None = None
    is_polling: bool = False


@dataclass
class Coordinator:
    """The classic protocol as far as members can tell."""

    assignor: str
    known: dict[str, Actor] = field(default_factory=dict)
    joined: dict[str, Member] = field(default_factory=dict)
    """Who has joined the generation to come, and what each said."""
    said: dict[str, Member] = field(default_factory=dict)
    """What those of the present one said."""
    generation: int = 0
    given: dict[str, list[TopicPartition]] | None = None
    names: int = 0

    def join(self, actor: Actor, step: Join) -> None:
        member_id = step.member_id
        if member_id and member_id not in self.known:
            actor.membership.on_refused(step, ErrorCode.UNKNOWN_MEMBER_ID)
            return
        if not member_id:
            self.names += 1
            member_id = f"{actor.name}-{self.names}"
        self.known[member_id] = actor
        said = Member(member_id, actor.topics, tuple(actor.membership.owned), step.generation)
        self.joined[member_id] = said
        actor.waits_for, self.given = step, None
        self.end_syncs()
        self.complete()

    def complete(self) -> None:
        """All known have joined: the generation begins."""
        if not self.joined or set(self.joined) < set(self.known):
            return
        self.generation += 1
        leader = min(self.joined)
        members = tuple(JoinedMember(member_id, None, b"") for member_id in self.joined)
        self.said, self.joined = self.joined, {}
        for member_id, actor in self.known.items():
            actor.waits_for = None
            is_leader = member_id == leader
            actor.membership.on_joined(
                Joined(
                    member_id,
                    self.generation,
                    self.assignor,
                    is_leader,
                    members=members if is_leader else (),
                ),
                0,
            )

    def end_syncs(self) -> None:
        """Another rebalance begins: who waits for his assignment gets none."""
        for actor in self.known.values():
            if isinstance(actor.waits_for, Sync):
                step, actor.waits_for = actor.waits_for, None
                actor.membership.on_refused(step, ErrorCode.REBALANCE_IN_PROGRESS)

    def sync(self, actor: Actor, step: Sync) -> None:
        joined = step.joined
        if joined.member_id not in self.known:
            actor.membership.on_refused(step, ErrorCode.UNKNOWN_MEMBER_ID)
        elif self.joined:
            actor.membership.on_refused(step, ErrorCode.REBALANCE_IN_PROGRESS)
        elif joined.generation != self.generation:
            actor.membership.on_refused(step, ErrorCode.ILLEGAL_GENERATION)
        else:
            if joined.is_leader:
                self.given = ASSIGNORS[self.assignor].assign(COUNTS, list(self.said.values()))
            actor.waits_for = step
            self.hand_out()

    def hand_out(self) -> None:
        for member_id, actor in self.known.items():
            if self.given is not None and isinstance(actor.waits_for, Sync):
                actor.waits_for = None
                actor.membership.on_synced(self.given.get(member_id, []), 0)

    def heartbeat(self, actor: Actor, step: Heartbeat) -> None:
        actor.membership.on_alive(0)
        if step.member_id not in self.known:
            actor.membership.on_refused(step, ErrorCode.UNKNOWN_MEMBER_ID)
        elif step.generation != self.generation:
            actor.membership.on_refused(step, ErrorCode.ILLEGAL_GENERATION)
        elif self.joined:
            actor.membership.on_refused(step, ErrorCode.REBALANCE_IN_PROGRESS)

    def throw_out(self, member_id: str) -> None:
        """Its session is over, or it left: the others join again."""
        actor = self.known.pop(member_id, None)
        if actor is None:
            return
        self.joined.pop(member_id, None)
        if actor.waits_for is not None:
            actor.waits_for = None  # its connection ended; it will try again and hear of it
        self.end_syncs()
        for other_id, other in self.known.items():
            if other.membership.member_id == other_id and other.waits_for is None:
                self.heartbeat_of_a_rebalance(other)
        self.complete()

    @staticmethod
    def heartbeat_of_a_rebalance(actor: Actor) -> None:
        member = actor.membership
        step = Heartbeat(member.member_id, member.generation)
        member.on_refused(step, ErrorCode.REBALANCE_IN_PROGRESS)


class Play:
    def __init__(self, seed: int, assignor: str) -> None:
        self.dice = random.Random(seed)
        self.is_cooperative = ASSIGNORS[assignor].is_cooperative
        self.coordinator = Coordinator(assignor)
        self.actors = [self.actor(n) for n in range(self.dice.randint(2, 4))]

    def actor(self, number: int) -> Actor:
        terms = Terms(is_cooperative=self.is_cooperative, heartbeat_interval_ms=0)
        member = Membership(terms)
        actor = Actor(f"a{number}", member)
        member.on_topics(actor.topics, "subscribed")
        return actor

    def loop(self, actor: Actor) -> None:
        """What the member's own loop does next."""
        if actor.waits_for is not None:
            return
        step = actor.membership.next_step(0)
        if isinstance(step, Join):
            self.coordinator.join(actor, step)
        elif isinstance(step, Sync):
            self.coordinator.sync(actor, step)
        elif isinstance(step, Heartbeat):
            self.coordinator.heartbeat(actor, step)
        elif isinstance(step, Leave):
            self.coordinator.throw_out(step.member_id)
        else:
            assert isinstance(step, Wait)

    def poll(self, actor: Actor) -> None:
        """A user's poll, one change at a time; between two of them anything may happen."""
        member = actor.membership
        if not actor.is_polling:
            actor.is_polling = True
            member.on_poll_begun(0)
            return
        change = member.pending()
        if change is None:
            actor.is_polling = False
            member.on_poll_ended(0)
            return
        if change.lost:
            member.on_given_up(change.lost)
        elif change.revoked:
            member.on_given_up(change.revoked)
        else:
            member.on_taken(change)

    def chaos(self, actor: Actor) -> None:
        if self.dice.random() < 0.5:
            self.coordinator.throw_out(actor.membership.member_id)
        else:
            actor.topics = ("s", "t") if actor.topics == ("t",) else ("t",)
            actor.membership.on_topics(actor.topics, "other topics")

    def step(self, chaos: float) -> None:
        actor = self.dice.choice(self.actors)
        luck = self.dice.random()
        if luck < chaos:
            self.chaos(actor)
        elif luck < 0.5:
            self.loop(actor)
        else:
            self.poll(actor)

    def check(self) -> None:
        owners: dict[TopicPartition, str] = {}
        for member_id, actor in self.coordinator.known.items():
            if actor.membership.member_id != member_id or not actor.membership.is_member:
                continue
            for partition in actor.membership.owned:
                assert partition not in owners, (partition, owners[partition], member_id)
                owners[partition] = member_id

    def is_settled(self) -> bool:
        owned = [p for actor in self.actors for p in actor.membership.owned]
        return sorted(owned) == sorted(self.wanted()) and all(
            actor.membership.stage is Stage.STABLE for actor in self.actors
        )

    def wanted(self) -> list[TopicPartition]:
        read = {topic for actor in self.actors for topic in actor.topics}
        return [partition for partition in ALL if partition.topic in read]


@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range", "sticky"])
@pytest.mark.parametrize("seed", range(60))
def test_nobody_in_the_group_has_what_another_has_and_all_is_had_in_the_end(
    seed: int, assignor: str
) -> None:
    play_out(seed, assignor)


def play_out(seed: int, assignor: str) -> None:
    play = Play(seed, assignor)
    for _ in range(400):
        play.step(chaos=0.04)
        play.check()
    for _ in range(3000):
        if play.is_settled():
            break
        play.step(chaos=0.0)
        play.check()
    assert play.is_settled()


def test_a_cooperative_group_that_withholds_nothing_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check can fail: what the eager assignor gives has two owners in a cooperative group."""

    def assign(_: object, counts: dict[str, int], members: list[Member]) -> object:
        return ASSIGNORS["sticky"].assign(counts, members)

    monkeypatch.setattr(type(ASSIGNORS["cooperative-sticky"]), "assign", assign)
    caught = 0
    for seed in range(20):
        try:
            play_out(seed, "cooperative-sticky")
        except AssertionError:
            caught += 1
    assert caught > 10
