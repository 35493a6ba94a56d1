"""Groups of every client: join, leave, die, come back; commits, and where a successor begins."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from minikafka import ErrorCode
from minikafka.protocol.api import ApiKey

from ..support.cluster import Cluster
from . import javascript
from .agent import Agent, Agents, Refused
from .clients import ALL, JAVASCRIPT, PYTHON, having, needs
from .membership import (
    all_places,
    numbered,
    owned,
    received,
    until,
    until_received,
    until_shared,
    values_of,
)

pytestmark = [pytest.mark.slow, needs(ApiKey.JOIN_GROUP)]
every_client = pytest.mark.parametrize("client", ALL)
PARTITIONS = 4
SHORT_SESSION_MS = 1500


@pytest.fixture
def pair(cluster: Cluster, agents: Agents, client: str) -> Iterator[tuple[Agent, Agent]]:
    """Two agents of one client."""
    if client in JAVASCRIPT:
        javascript.skip_if_missing()
    with agents.taken(client, cluster.bootstrap, 2) as (one, other):
        yield one, other


def make(agent: Agent, topic: str, partitions: int = PARTITIONS) -> None:
    agent.ask("create_topics", topics=[{"name": topic, "partitions": partitions}])


def join(agent: Agent, topic: str, **settings: object) -> None:
    agent.ask("join", group=topic, topics=[topic], **settings)


@every_client
def test_members_share_a_topic_and_one_leaves(pair: tuple[Agent, Agent], topic: str) -> None:
    one, other = pair
    places = all_places(topic, PARTITIONS)
    make(one, topic)
    join(one, topic)
    until_shared([one], places)
    join(other, topic)
    until_shared(pair, places)
    sent = numbered(0, 40, PARTITIONS)
    one.produce(topic, sent)
    until_received(pair, values_of(sent))
    for member in pair:
        assert {partition for partition, _, _ in received(member)} == {p for _, p in owned(member)}
        ends = {p: max(o for q, o, _ in received(member) if q == p) + 1 for _, p in owned(member)}
        member.ask("commit", offsets=[[topic, p, end] for p, end in ends.items()])
    other.ask("leave")
    until_shared([one], places)
    more = numbered(40, 8, PARTITIONS)
    one.produce(topic, more)
    until_received([one], values_of(more))
    assert len(received(one)) + len(received(other)) == 48


@every_client
def test_a_killed_member_is_replaced(pair: tuple[Agent, Agent], topic: str) -> None:
    """Its session ends; the other one goes on where it had committed."""
    one, other = pair
    places = all_places(topic, PARTITIONS)
    make(one, topic)
    for member in pair:
        join(member, topic, session_ms=SHORT_SESSION_MS)
    until_shared(pair, places)
    sent = numbered(0, 40, PARTITIONS)
    one.produce(topic, sent)
    until_received(pair, values_of(sent))
    lost = owned(other)
    other.ask("commit", offsets=[[name, partition, 7] for name, partition in lost])
    before = len(received(one))
    other.kill()

    def of_lost() -> list[tuple[int, int]]:
        return [(p, offset) for p, offset, _ in received(one)[before:] if (topic, p) in lost]

    until_shared([one], places)
    until(lambda: len(of_lost()) >= 3 * len(lost), [one], "records after the commit")
    assert sorted(of_lost()) == [(p, offset) for _, p in sorted(lost) for offset in (7, 8, 9)]


@every_client
def test_a_successor_begins_at_the_commit(pair: tuple[Agent, Agent], topic: str) -> None:
    one, other = pair
    make(one, topic, 1)
    sent = numbered(0, 30, 1)
    one.produce(topic, sent)
    join(one, topic)
    until_received([one], values_of(sent))
    one.ask("commit", offsets=[[topic, 0, 12]])
    if one.client in having("committed"):
        assert one.ask("committed", places=[[topic, 0]]) == [12]
    one.ask("leave")
    join(other, topic)
    until(lambda: len(received(other)) >= 18, [other], "records after the commit")
    assert [offset for _, offset, _ in received(other)] == list(range(12, 30))


@every_client
def test_what_is_committed_by_itself(pair: tuple[Agent, Agent], topic: str) -> None:
    one, other = pair
    make(one, topic, 1)
    sent = numbered(0, 30, 1)
    one.produce(topic, sent)
    join(one, topic, auto_commit=True)
    until_received([one], values_of(sent))
    until(
        lambda: other.ask("group_offsets", group=topic) == [[topic, 0, 30]], pair, "commit of all"
    )
    one.ask("leave")
    join(other, topic)
    until_shared([other], [(topic, 0)])
    one.produce(topic, numbered(30, 1, 1))
    until(lambda: bool(received(other)), [other], "record after the commit")
    assert [offset for _, offset, _ in received(other)] == [30]


@pytest.mark.parametrize("client", having("static membership"))
def test_a_static_member_comes_back(
    pair: tuple[Agent, Agent], cluster: Cluster, agents: Agents, topic: str
) -> None:
    """Killed and back within its session: it has what it had, and nobody else noticed."""
    one, other = pair
    places = all_places(topic, PARTITIONS)
    make(one, topic)
    join(one, topic, instance_id="one", session_ms=20_000)
    until_shared([one], places)
    join(other, topic, instance_id="other", session_ms=20_000)
    until_shared(pair, places)
    had, told = owned(other), len(one.events("assigned"))
    other.kill()
    with agents.taken(one.client, cluster.bootstrap) as (back,):
        join(back, topic, instance_id="other", session_ms=20_000)
        until_shared([one, back], places)
        assert owned(back) == had
        sent = numbered(0, 20, PARTITIONS)
        one.produce(topic, sent)
        until_received([one, back], values_of(sent))
        assert len(one.events("assigned")) == told


@pytest.mark.parametrize("client", having("cooperative"))
def test_a_cooperative_member_keeps_what_it_need_not_give(
    pair: tuple[Agent, Agent], topic: str
) -> None:
    one, other = pair
    places = all_places(topic, PARTITIONS)
    make(one, topic)
    join(one, topic, strategy="cooperative-sticky")
    until_shared([one], places)
    told = len(one.events("assigned"))
    join(other, topic, strategy="cooperative-sticky")
    until_shared(pair, places)
    assert all(len(event["places"]) >= 2 for event in one.events("assigned")[told:])
    sent = numbered(0, 40, PARTITIONS)
    one.produce(topic, sent)
    until_received(pair, values_of(sent))


@every_client
def test_a_group_is_shown_moved_and_deleted(pair: tuple[Agent, Agent], topic: str) -> None:
    one, other = pair
    make(one, topic, 2)
    sent = numbered(0, 20, 2)
    one.produce(topic, sent)
    join(one, topic)
    until_received([one], values_of(sent))
    one.ask("commit", offsets=[[topic, 0, 4], [topic, 1, 5]])
    assert topic in other.ask("groups")
    shown = other.ask("describe_group", group=topic)
    assert shown == {"state": "Stable", "members": 1, "owned": [[topic, 0], [topic, 1]]}
    assert other.ask("group_offsets", group=topic) == [[topic, 0, 4], [topic, 1, 5]]
    if one.client in having("delete group"):
        with pytest.raises(Refused) as refused:
            other.ask("delete_group", group=topic)
        assert refused.value.code == ErrorCode.NON_EMPTY_GROUP
    one.ask("leave")
    shown = other.ask("describe_group", group=topic)
    assert shown == {"state": "Empty", "members": 0, "owned": []}
    left = [[topic, 0, 4], [topic, 1, 5]]
    if one.client in having("alter group offsets"):
        other.ask("alter_group_offsets", group=topic, offsets=[[topic, 0, 1]])
        left[0] = [topic, 0, 1]
        assert other.ask("group_offsets", group=topic) == left
    if one.client in having("delete group offsets"):
        other.ask("delete_group_offsets", group=topic, topic=topic, partition=1)
        assert other.ask("group_offsets", group=topic) == left[:1]
    if one.client in having("delete group"):
        other.ask("delete_group", group=topic)
        assert topic not in other.ask("groups")


def test_a_group_of_different_clients(cluster: Cluster, agents: Agents) -> None:
    """Whoever leads assigns for members in other libraries, in the protocol they share."""
    topic, partitions = "mixed-group", 6
    with ExitStack() as stack:
        members = [
            stack.enter_context(agents.taken(client, cluster.bootstrap))[0] for client in PYTHON
        ]
        make(members[0], topic, partitions)
        for member in members:
            join(member, topic)
        until_shared(members, all_places(topic, partitions))
        sent = numbered(0, 60, partitions)
        members[0].produce(topic, sent)
        until_received(members, values_of(sent))
        members[0].ask("leave")
        until_shared(members[1:], all_places(topic, partitions))
