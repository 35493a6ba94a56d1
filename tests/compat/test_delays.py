"""Delay topics through every client: it parks records, reads the target, and what is parked."""

import time

import pytest

from ..support.cluster import Cluster
from .agent import Agent, Agents, Record
from .clients import ALL

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
