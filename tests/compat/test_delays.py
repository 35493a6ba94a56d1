"""Delay topics through every client: it parks records, reads the target, and what is parked."""

import time
from collections.abc import Callable

import pytest

from ..support.cluster import Cluster, wait_until
from .agent import Agent, Agents, Record, end_of
from .clients import ALL
from .observer import Fetched

pytestmark = pytest.mark.slow
every_client = pytest.mark.parametrize("client", ALL)


@pytest.fixture(scope="module")
def topics(cluster: Cluster, agents: Agents) -> None:
    """A delay topic for each client, and its target."""
    with agents.taken("minikafka", cluster.bootstrap) as (agent,):
        names = [name.replace("/", "-") for name in ALL]
        made = [{"name": f"now-{name}", "partitions": 1} for name in names]
        agent.ask("create_topics", topics=made)
        later = [
            {
                "name": f"later-{name}",
                "partitions": 1,
                "configs": {"minikafka.delay.target": f"now-{name}"},
            }
            for name in names
        ]
        agent.ask("create_topics", topics=later)


@pytest.fixture(scope="module")
def forwarded(cluster: Cluster, agents: Agents) -> int:
    """A delay topic that has steps between its records and at its end; where it ends."""
    with agents.taken("minikafka", cluster.bootstrap) as (agent,):
        agent.ask("create_topics", topics=[{"name": "target", "partitions": 1}])
        configs = {"minikafka.delay.target": "target"}
        topic = {"name": "forwarded", "partitions": 1, "configs": configs}
        agent.ask("create_topics", topics=[topic])
        for count in (3, 6):
            agent.produce("forwarded", [parked(b"x", 0)] * 3)
            agent.consume("target", count, partitions=1)
        # The last step says that the last plan has ended; then nothing more is written.
        return wait_until_stable(lambda: end_of(agent, "forwarded"))


def wait_until_stable(probe: Callable[[], int]) -> int:
    found, since = probe(), time.monotonic()
    while time.monotonic() - since < 2.5:
        if (newer := probe()) != found:
            found, since = newer, time.monotonic()
    return found


def parked(value: bytes, delay_ms: int) -> Record:
    now_ms = time.time_ns() // 1_000_000
    return Record(0, b"key", value, (("minikafka-delay-ms", b"%d" % delay_ms),), now_ms)


@every_client
@pytest.mark.usefixtures("topics")
def test_r_01_r_38_a_client_parks_records_and_reads_on_past_the_steps(
    agent: Agent, client: str
) -> None:
    later, now = f"later-{client}", f"now-{client}"
    for count in (3, 6):
        # The second time the delay topic holds steps between its records.
        agent.produce(later, [parked(b"c", 900), parked(b"b", 500), parked(b"a", 0)])
        found = agent.consume(now, count, partitions=1)
        assert [one.value for one in found[-3:]] == [b"a", b"b", b"c"]
        sources = [value for one in found for name, value in one.headers if name.endswith("source")]
        assert len(sources) == len(set(sources)) == count
        for isolation in ("read_uncommitted", "read_committed"):
            itself = agent.consume(later, count, partitions=1, isolation=isolation)
            assert [one.value for one in itself] == [b"c", b"b", b"a"] * (count // 3)


@every_client
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_r_38_a_client_reads_a_delay_topic_to_its_end(
    agent: Agent, client: str, isolation: str, forwarded: int, fetched: list[Fetched]
) -> None:
    """Its position reaches the log's end, behind the last step: its lag is 0."""
    assert forwarded > 6
    agent.tell("consume", topic="forwarded", count=7, partitions=1, isolation=isolation)
    wait_until(lambda: fetched and fetched[-1].offset == forwarded)
    agent.kill()
