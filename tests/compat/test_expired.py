"""Topics whose records expire, through every client: it reads on past what has expired."""

import time

import pytest

from ..support.cluster import Cluster, wait_until
from .agent import Agent, Agents, Record, end_of
from .clients import ALL
from .observer import Fetched

pytestmark = pytest.mark.slow
every_client = pytest.mark.parametrize("client", ALL)
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def topics(cluster: Cluster, agents: Agents) -> None:
    """For each client a topic whose records live for ten minutes."""
    with agents.taken("minikafka", cluster.bootstrap) as (agent,):
        settings = {"minikafka.ttl.ms": str(HOUR_MS // 6), "minikafka.ttl.strict": "true"}
        made = [
            {"name": f"brief-{name.replace('/', '-')}", "partitions": 1, "configs": settings}
            for name in ALL
        ]
        agent.ask("create_topics", topics=made)


@pytest.fixture(scope="module")
def expired(cluster: Cluster, agents: Agents) -> int:
    """A topic of which all but one record has expired, also at its end; where it ends."""
    with agents.taken("minikafka", cluster.bootstrap) as (agent,):
        configs = {"minikafka.ttl.ms": str(HOUR_MS // 6)}
        topic = {"name": "expired", "partitions": 1, "configs": configs}
        agent.ask("create_topics", topics=[topic])
        for number in range(20):
            agent.produce("expired", [record(b"old" * 1_000, HOUR_MS)] * 20)
            if number == 9:
                agent.produce("expired", [record(b"alive")])
        return end_of(agent, "expired")


def record(value: bytes, age_ms: int = 0) -> Record:
    return Record(0, b"key", value, (), time.time_ns() // 1_000_000 - age_ms)


@every_client
@pytest.mark.usefixtures("topics")
def test_r_40_a_client_reads_on_past_runs_of_expired_batches(agent: Agent, client: str) -> None:
    topic = f"brief-{client.replace('/', '-')}"
    old = [record(b"old", HOUR_MS)] * 20
    alive: list[bytes] = []
    for number in range(3):
        for _ in range(5):
            agent.produce(topic, old)
        agent.produce(topic, [record(b"old", HOUR_MS), record(b"%d" % number), *old])
        alive.append(b"%d" % number)
        for isolation in ("read_uncommitted", "read_committed"):
            found = agent.consume(topic, len(alive), partitions=1, isolation=isolation)
            assert [one.value for one in found] == alive


@every_client
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_r_40_a_client_reaches_the_end_behind_what_has_expired(
    agent: Agent, client: str, isolation: str, expired: int, fetched: list[Fetched]
) -> None:
    """It asks for no more bytes than before, though nearly all that it was sent was hidden."""
    agent.tell("consume", topic="expired", count=2, partitions=1, isolation=isolation)
    wait_until(lambda: fetched and fetched[-1].offset == expired)
    agent.kill()
    assert len(dict.fromkeys(each.most_bytes for each in fetched)) == 1
