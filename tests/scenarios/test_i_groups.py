"""Scenarios I: consumer groups, the coordinator's side.

Those worded for the protocol of KIP-848 (I-01 to I-03, I-10) are played in what corresponds to them
in the classic protocol, where the generation is the epoch.
"""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.coordinator.group import deletion
from minikafka.broker.coordinator.group.offsets import tombstone
from minikafka.broker.coordinator.group.phases import Phase
from minikafka.broker.coordinator.group.values import Joined, Synced
from minikafka.broker.coordinator.keys import partition_of
from minikafka.protocol.coordinator_records import (
    GroupMetadataKey,
    GroupMetadataRecord,
    OffsetCommitRecord,
    encode_record,
)
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.elect_leaders import ElectionType
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.types import TopicPartition

from ..broker.group_lab import REBALANCE_MS, GroupLab
from ..broker.group_support import GroupBroker, join_request
from ..broker.test_group_offsets import Coordinator, commit_in_transaction, end
from ..simulation.stage import Stage, staged
from .group_stories import BROKER, OFFSETS, Member

WEEK_MS = 7 * 86_400_000


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    made = await GroupBroker(tmp_path).open()
    yield made
    await made.close()


def test_i_01_an_answer_that_was_lost_is_given_again() -> None:
    """Given the answers to JoinGroup and SyncGroup of a generation lost; when the member asks
    again; then it gets the same generation and the same assignment, and nobody is disturbed."""
    lab = GroupLab()
    lab.join("a")
    lab.join("b")
    lab.join("a")
    b = lab.clients["b"]
    first = b.told[-1]
    lab.join_once("b")
    assert b.told[-1] == first
    lab.assign()
    lab.sync("b")
    assert isinstance(b.told[-1], Synced)
    assert b.told[-1].assignment == b"b"
    assert (lab.group.phase, lab.group.phases.generation) == (Phase.STABLE, 2)


def test_i_02_a_generation_that_is_yet_to_come_is_refused() -> None:
    """Given a member that claims a generation greater than the present one; when it heartbeats,
    syncs or commits; then ILLEGAL_GENERATION, and nothing changes."""
    lab = GroupLab()
    lab.settle("a")
    a = lab.clients["a"]
    a.generation += 1
    assert lab.beat("a") is ErrorCode.ILLEGAL_GENERATION
    lab.sync("a", {"a": b"all"})
    assert a.told[-1].error is ErrorCode.ILLEGAL_GENERATION
    error = lab.group.check_commit(a.who, a.generation, is_transactional=False)
    assert error is ErrorCode.ILLEGAL_GENERATION
    assert (lab.group.phase, lab.group.phases.generation) == (Phase.STABLE, 1)


@pytest.mark.parametrize("seed", range(40))
def test_i_03_no_partition_has_two_owners_whose_commits_count(seed: int) -> None:
    """Given members that come, go, fall silent and join again in any order, over failovers; when
    partitions move; then at no moment do two members own one of which both may commit."""
    dice = random.Random(seed)
    lab = GroupLab(initial_rebalance_delay_ms=dice.choice((0, 3_000)))
    names = [f"m{number}" for number in range(5)]
    for _ in range(120):
        name = dice.choice(names)
        client = lab.client(name)
        match dice.randrange(8):
            case 0 | 1 | 2:
                client.told.clear()  # Whoever joins has given up what it had.
                lab.join(name)
            case 3 | 4:
                share_out(lab, dice)
            case 5:
                lab.wait(dice.choice((100, 3_000, 11_000, REBALANCE_MS)))
            case 6 if client.member_id:
                client.told.clear()
                lab.leave(name)
                client.member_id = ""
            case 7:
                lab.fail_over()
        lab.check()
        owned: dict[str, str] = {}
        for each in lab.clients.values():
            error = lab.group.check_commit(each.who, each.generation, is_transactional=False)
            if error or not each.member_id or not each.told:
                continue
            last = each.told[-1]
            if isinstance(last, Synced) and not last.error:
                for partition in last.assignment.decode().split():
                    assert owned.setdefault(partition, each.name) == each.name


def share_out(lab: GroupLab, dice: random.Random) -> None:
    """Members of the generation sync in any order; the leader deals six partitions out."""
    clients = [
        client
        for client in lab.clients.values()
        if client.member_id in lab.group.roster.members
        and client.told
        and isinstance(client.told[-1], Joined)
    ]
    dice.shuffle(clients)
    members = [
        client for client in lab.clients.values() if client.member_id in lab.group.roster.members
    ]
    for client in clients:
        given: dict[str, bytes] = {}
        if client.member_id == lab.group.roster.leader:
            for number in range(6):
                owner = dice.choice(members).name
                given[owner] = given.get(owner, b"") + f" {number}".encode()
        lab.sync(client.name, given)


def test_i_04_who_is_silent_during_a_rebalance_is_out_when_its_time_is_over() -> None:
    """Given a rebalance for which a member must give up what it has; when it stays silent; then it
    is out when the rebalance timeout has passed, and its later commit is refused."""
    lab = GroupLab()
    lab.clients["a"] = a = lab.client("a")
    a.session_ms = 2 * REBALANCE_MS
    lab.settle("a")
    lab.join("b")
    commit = lab.group.check_commit
    lab.wait(REBALANCE_MS - 1)
    assert commit(a.who, 1, is_transactional=False) is ErrorCode.NONE, "it may still give up"
    lab.wait(1)
    assert commit(a.who, 1, is_transactional=False) is ErrorCode.UNKNOWN_MEMBER_ID
    assert [lab.name_of(each) for each in lab.group.roster.members] == ["b"]


@staged(broker=BROKER)
async def test_i_05_a_failover_in_the_midst_of_a_rebalance(stage: Stage) -> None:
    """Given a stable group, and a rebalance under way; when the coordinator dies; then the next one
    has the generation that was stored, its members and every acknowledged offset, and the group
    finds together again."""
    await stage.create_topic("t", 2)
    one, two = Member(stage), Member(stage)
    assert await one.join() == "NONE"
    assert await one.sync({one.member_id: b"all"}) == b"all"
    assert await one.commit(11) == await one.commit(12, partition=1) == "NONE"
    first = await one.coordinator()
    joining = stage.world.loop.create_task(two.join())
    await stage.until(lambda: phase_at(stage, first) is Phase.PREPARING, "two joins", 10)
    stage.kill(first)
    # It is known, and in its generation; that the other one is there already is no matter.
    assert await one.beat() in ("NONE", "REBALANCE_IN_PROGRESS")
    second = await one.coordinator()
    assert second != first
    assert await one.committed() == {0: 11, 1: 12}
    again = stage.world.loop.create_task(rejoin_until_two(stage, one))
    assert await joining == "NONE"
    await again
    leader, other = (one, two) if one.leads else (two, one)
    given = {one.member_id: b"0", two.member_id: b"1"}
    assert await leader.sync(given) == given[leader.member_id]
    assert await other.sync() == given[other.member_id]
    assert await one.commit(13) == "NONE"
    assert await two.committed() == {0: 13, 1: 12}


async def rejoin_until_two(stage: Stage, member: Member) -> None:
    """Heartbeat, and join again when told to."""
    for _ in range(200):
        if await member.beat() != "NONE":
            assert await member.join() == "NONE"
            return
        await stage.sleep(0.05)
    raise AssertionError("nobody else joins")


def phase_at(stage: Stage, broker_id: int) -> Phase | None:
    shard = stage.broker(broker_id).parts.edge.groups.shards.of("g")
    if isinstance(shard, ErrorCode) or "g" not in shard.state.groups:
        return None
    return shard.state.groups["g"].phase


@staged(broker=BROKER)
async def test_i_06_what_was_committed_is_never_less_after_the_coordinator_died(
    stage: Stage,
) -> None:
    """Given offsets committed one after the other; when each coordinator in turn is killed, by a
    signal or by power; then what the next one tells is never less than what was acknowledged, and
    never goes back."""
    await stage.create_topic("t")
    member = Member(stage)
    acknowledged = told = 0
    for round_number in range(5):
        for _ in range(10):
            assert await member.commit(acknowledged + 1) == "NONE"
            acknowledged += 1
        victim = await member.coordinator()
        committing = stage.world.loop.create_task(member.commit(acknowledged + 1))
        await stage.sleep(0.0005 * round_number)
        stage.kill(victim) if round_number % 2 else stage.power_off(victim)
        found = (await Member(stage).committed())[0]
        assert found >= max(acknowledged, told)
        told = found
        assert await committing == "NONE"
        acknowledged += 1
        stage.start(victim) if round_number % 2 else stage.power_on(victim)
        await stage.ready(victim)
        assert (await member.committed())[0] == acknowledged


async def test_i_07_tombstones_may_come_first(broker: GroupBroker) -> None:
    """Given a log whose compaction left tombstones before, or without, what they bury; when it is
    loaded; then what came later holds, and nothing else is there (KAFKA-17306)."""
    shard = broker.edge.groups.shards.at(0)
    assert not isinstance(shard, ErrorCode)
    buried: list[OffsetCommitRecord | GroupMetadataRecord] = [
        tombstone("g", ("t", 0)),
        GroupMetadataRecord(GroupMetadataKey(group="g"), None),
        tombstone("other", ("t", 1)),
    ]
    assert shard.append([encode_record(each) for each in buried], lambda error: None)
    assert await broker.commit((0, 5)) == ["NONE"]
    await broker.fail_over()
    assert await broker.committed() == {0: 5}
    assert await broker.committed("other") == {}
    again = broker.edge.groups.shards.at(0)
    assert not isinstance(again, ErrorCode)
    assert [*again.state.groups] == ["g"]


async def test_i_08_a_rebalance_longer_than_the_retention_costs_no_offset(
    broker: GroupBroker,
) -> None:
    """Given a group that is being rebalanced for longer than offsets are kept; when unused offsets
    are looked for; then its own are kept (KAFKA-13636)."""
    joined: JoinGroupResponse = await broker.stable(topics=("u",))
    member: dict[str, Any] = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    assert await broker.commit((0, 5), version=9, **member) == ["NONE"]
    new = await broker.ask(join_request(topics=("u",)), 9)
    broker.connect().send(join_request(member_id=new.member_id, topics=("u",)), 9)
    shard = broker.edge.groups.shards.at(0)
    assert not isinstance(shard, ErrorCode)
    assert shard.state.groups["g"].phase is Phase.PREPARING
    wall_ms = broker.runtime.wall_ms() + 2 * WEEK_MS
    broker.runtime.wall_ms = lambda: wall_ms  # type: ignore[method-assign]
    broker.edge.groups.upkeep.expire(shard)
    assert await broker.committed() == {0: 5}
    # Nothing but the rebalance keeps them: nobody reads that topic.
    shard.state.groups["g"].phases.phase = Phase.STABLE
    assert len(deletion.expire(shard.state, "g", wall_ms=wall_ms, retention_ms=WEEK_MS)) == 1


@staged(broker=BROKER)
async def test_i_09_a_coordinator_that_comes_back_remembers_nothing_of_its_own(
    stage: Stage,
) -> None:
    """Given a coordinator that lost its partition and gets it back; when others have committed
    meanwhile; then it tells what they committed, not what it knew."""
    await stage.create_topic("t")
    member = Member(stage)
    assert await member.commit(5) == "NONE"
    first = await member.coordinator()
    index = partition_of("g", 2)
    shard = stage.broker(first).parts.edge.groups.shards.of("g")
    assert not isinstance(shard, ErrorCode)
    old_epoch = shard.epoch
    stage.isolate(first, "client-1")
    second = await Member(stage).coordinator_but(first)
    assert second != first
    assert await member.commit(7) == "NONE"
    stage.heal()
    await stage.until(lambda: first in stage.state(OFFSETS, index).isr, "it is in sync again", 60)
    place = TopicPartition(OFFSETS, index)
    await stage.admin(lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [place]))
    await stage.until(lambda: stage.state(OFFSETS, index).leader == first, "it leads again", 20)
    assert await Member(stage).committed() == {0: 7}
    assert await member.coordinator() == first
    again = stage.broker(first).parts.edge.groups.shards.of("g")
    assert not isinstance(again, ErrorCode)
    assert again is not shard
    assert again.epoch > old_epoch


def test_i_10_members_old_and_new_agree_on_one_protocol() -> None:
    """Given members that know only the old protocol among some that know a new one, too; when they
    are rolled over one by one; then all of a generation speak the same, the old one until the last
    that knows nothing else is gone: two ways of handing over are never mixed."""
    lab = GroupLab()
    for name in "abc":
        lab.client(name).protocols = ("range",)
        lab.join(name)
    for name in "ab":
        lab.join(name)
    lab.assign()
    for number, name in enumerate("abc"):
        lab.client(name).protocols = ("cooperative-sticky", "range")
        lab.leave(name)
        lab.clients[name].member_id = ""
        for each in "abc":
            lab.join(each)
        for each in "abc":
            if lab.group.phase is Phase.PREPARING:
                lab.join(each)
        last = [client.told[-1] for client in lab.clients.values()]
        spoken = {each.protocol: None for each in last if isinstance(each, Joined)}
        assert [*spoken] == ["cooperative-sticky" if number == 2 else "range"]
        assert {each.generation for each in last if isinstance(each, Joined)} == {
            lab.group.phases.generation
        }
        lab.assign()


def test_i_11_a_thousand_members_at_once() -> None:
    """Given a thousand members that join an empty group at once; when the initial delay is over;
    then all are in one generation, and their heartbeats are answered."""
    lab = GroupLab(initial_rebalance_delay_ms=3_000)
    names = [f"m{number}" for number in range(1_000)]
    for name in names:
        lab.join(name)
    lab.wait(6_000)
    lab.assign()
    assert (lab.group.phase, lab.group.phases.generation) == (Phase.STABLE, 1)
    for _ in range(5):
        lab.wait(3_000)
        assert {lab.beat(name) for name in names} == {ErrorCode.NONE}
    assert len(lab.group.roster.members) == 1_000


async def test_i_12_offsets_that_a_transaction_may_change_are_not_told_as_stable(
    broker: GroupBroker,
) -> None:
    """Given offsets committed in a transaction that is open; when somebody asks for stable ones;
    then UNSTABLE_OFFSET_COMMIT for those alone, until it has ended (KIP-447)."""
    Coordinator(broker)
    assert await broker.commit((0, 1), (1, 2)) == ["NONE", "NONE"]
    assert await commit_in_transaction(broker, 9) == "NONE"
    assert await broker.committed(stable=True) == {0: "UNSTABLE_OFFSET_COMMIT", 1: 2}
    assert await broker.committed() == {0: 1, 1: 2}
    assert await end(broker, is_commit=True) == "NONE"
    assert await broker.committed(stable=True) == {0: 9, 1: 2}
