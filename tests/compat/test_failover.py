"""The broker that coordinates everybody's group and transactions is killed: every client goes on.

Three brokers, one partition each of the internal topics, so that one broker coordinates all. It is
killed once, while members of every client are at work.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from minikafka import Admin, ElectionType, TopicPartition
from minikafka.protocol.api import ApiKey

from ..support.cluster import Cluster, wait_until
from . import javascript
from .agent import Agent, Agents, Refused
from .clients import JAVASCRIPT, having, needs
from .conftest import SETTINGS
from .membership import numbered, received, until, until_received, values_of
from .observer import Observer, start_observed

pytestmark = [pytest.mark.slow, needs(ApiKey.JOIN_GROUP)]
PARTITIONS = 3
INTERNAL = ("__consumer_offsets", "__transaction_state")
SURVIVORS = having("another coordinator")
ONE_COORDINATOR = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


class Outlived(NamedTuple):
    """What a client had committed before its coordinator was killed, and after."""

    committed: list[list[object]]
    found_after: list[list[object]]
    committed_after: list[list[object]]
    found_last: list[list[object]]


@pytest.fixture(scope="module")
def cluster(observer: Observer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("failover")
    settings = {**SETTINGS, **ONE_COORDINATOR}
    with Cluster(directory, brokers=3, broker_settings=settings) as made:
        yield start_observed(observer, made)


@pytest.fixture(scope="module")
def clients() -> list[str]:
    return [one for one in SURVIVORS if one not in JAVASCRIPT or not javascript.missing()]


@pytest.fixture(scope="module")
def outlived(
    cluster: Cluster, observer: Observer, agents: Agents, clients: list[str]
) -> Iterator[dict[str, Outlived]]:
    """Every client joins and commits; the coordinator is killed; every client commits again."""
    with ExitStack() as stack:
        members = {
            client: stack.enter_context(agents.taken(client, cluster.bootstrap, 2))
            for client in clients
        }
        for member, other in members.values():
            begin(member)
            begin_transaction(other)
        before = {client: commit(member, 10) for client, (member, _) in members.items()}
        kill_coordinator(cluster, observer)
        found = {client: offsets(asking, client) for client, (_, asking) in members.items()}
        for member, _ in members.values():
            go_on(member)
        after = {client: commit(member, 20) for client, (member, _) in members.items()}
        last = {client: offsets(asking, client) for client, (_, asking) in members.items()}
        for _, other in members.values():
            other.ask("tx_commit")
        yield {
            client: Outlived(before[client], found[client], after[client], last[client])
            for client in clients
        }


def begin(member: Agent) -> None:
    """Join a group of its own and read what it has produced."""
    topic = member.client
    member.ask("create_topics", topics=[{"name": topic, "partitions": PARTITIONS, "replicas": 3}])
    member.ask("join", group=topic, topics=[topic])
    sent = numbered(0, 30, PARTITIONS)
    member.produce(topic, sent)
    until_received([member], values_of(sent))


def begin_transaction(agent: Agent) -> None:
    """Leave a transaction open, over all partitions of a topic of its own."""
    topic = f"{agent.client}-transaction"
    agent.ask("create_topics", topics=[{"name": topic, "partitions": PARTITIONS, "replicas": 3}])
    agent.ask("tx_open", id=topic)
    agent.ask("tx_begin")
    records = [one.as_json() for one in numbered(0, 9, PARTITIONS)]
    agent.ask("tx_send", topic=topic, records=records)


def go_on(member: Agent) -> None:
    """Produce more and read it; what was not acknowledged is produced again."""
    sent = numbered(30, 30, PARTITIONS)

    def is_produced() -> bool:
        try:
            member.produce(member.client, sent)
        except Refused:
            return False
        return True

    wait_until(is_produced, within_s=30)
    wanted = {*values_of(sent)}
    until(lambda: wanted <= {v for _, _, v in received(member) if v}, [member], "records")


def commit(member: Agent, offset: int) -> list[list[object]]:
    """Commit until it is acknowledged."""
    wanted: list[list[object]] = [[member.client, p, offset] for p in range(PARTITIONS)]

    def is_committed() -> bool:
        try:
            member.ask("commit", offsets=wanted)
        except Refused:
            return False
        return True

    wait_until(is_committed, within_s=30)
    return wanted


def offsets(asking: Agent, group: str) -> list[list[object]]:
    """Ask until a coordinator answers."""

    def asked() -> list[list[object]] | None:
        try:
            found: list[list[object]] = asking.ask("group_offsets", group=group)
        except Refused:
            return None
        return found

    return wait_until(asked, within_s=30)


def kill_coordinator(cluster: Cluster, observer: Observer) -> None:
    """kill -9 of the broker that coordinates all groups, and all transactions too."""
    groups, transactions = (TopicPartition(name, 0) for name in INTERNAL)
    with Admin(cluster.bootstrap) as admin:

        def leader(place: TopicPartition) -> int:
            return admin.describe_topics([place.topic])[place.topic].partitions[0].leader_id

        victim = leader(groups)
        if leader(transactions) != victim:
            replicas = [victim, *(n for n in (1, 2, 3) if n != victim)]
            admin.alter_partition_reassignments({transactions: replicas})
            admin.elect_leaders(ElectionType.PREFERRED, [transactions])
            wait_until(lambda: leader(transactions) == victim)
        broker = cluster.broker(victim)
        observer.refuse(broker.port)
        broker.kill()


@pytest.mark.parametrize("client", SURVIVORS)
def test_no_commit_is_lost_with_the_coordinator(
    clients: list[str], outlived: dict[str, Outlived], client: str
) -> None:
    if client not in clients:
        pytest.skip(str(javascript.missing()))
    found = outlived[client]
    assert found.found_after == found.committed
    assert found.found_last == found.committed_after


@pytest.mark.parametrize("client", SURVIVORS)
def test_a_transaction_outlives_its_coordinator(
    cluster: Cluster, clients: list[str], outlived: dict[str, Outlived], agents: Agents, client: str
) -> None:
    if client not in clients:
        pytest.skip(str(javascript.missing()))
    with agents.taken(client, cluster.bootstrap) as (agent,):
        topic = f"{client}-transaction"
        found = agent.consume(topic, 9, partitions=PARTITIONS, isolation="read_committed")
    assert sorted(values_of(found)) == values_of(numbered(0, 9, PARTITIONS))
