"""The clusters that this folder's tests share, the observer before them, and clients' agents."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.broker.api.table import SPOKEN
from minikafka.protocol.api import ApiKey

from ..support.cluster import Cluster
from . import javascript
from .agent import Agent, Agents
from .clients import JAVASCRIPT, client_of
from .observer import OBSERVATIONS, Fetched, Observer, Test, start_observed
from .secured import Secured, running

SETTINGS = {
    "num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.cleaner.backoff.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "metrics.listener": "127.0.0.1:0",
}
"""Groups that need not wait for more members; sessions and transactions that end soon; metrics, so
that clients may push theirs."""


@pytest.fixture(scope="session")
def observer() -> Iterator[Observer]:
    with Observer() as observer:
        yield observer


@pytest.fixture(scope="session")
def cluster(observer: Observer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("compat")
    with Cluster(directory, brokers=1, broker_settings=SETTINGS) as one:
        yield start_observed(observer, one)
        one.stop()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with running(tmp_path_factory.mktemp("secured"), SETTINGS) as one:
        yield one


@pytest.fixture(scope="session")
def agents() -> Iterator[Agents]:
    with Agents() as agents:
        yield agents


@pytest.fixture
def agent(cluster: Cluster, agents: Agents, client: str) -> Iterator[Agent]:
    """The agent of the client that the test is parametrised with."""
    if client in JAVASCRIPT:
        javascript.skip_if_missing()
        if ApiKey.JOIN_GROUP not in SPOKEN:
            pytest.skip("reads only as a member of a group")
    with agents.taken(client, cluster.bootstrap) as (one,):
        yield one


@pytest.fixture
def topic(request: pytest.FixtureRequest, client: str) -> str:
    """A name for the test's topic."""
    node: pytest.Item = request.node
    return re.sub(r"[^a-zA-Z0-9._-]+", "-", node.name).strip("-")


@pytest.fixture(autouse=True)
def observed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Attribute what the observer sees from here on to this test."""
    node: pytest.Item = request.node
    client = client_of(node)
    name = node.nodeid.rpartition("tests/compat/")[2]
    if client is not None:
        OBSERVATIONS.clients[name] = client
        OBSERVATIONS.running = Test(name, client)
    yield
    OBSERVATIONS.running = None


@pytest.fixture
def fetched(observed: None) -> list[Fetched]:
    """What this test's client asks of partitions; it grows as the client does."""
    assert OBSERVATIONS.running is not None
    return OBSERVATIONS.fetched.setdefault(OBSERVATIONS.running, [])


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count only what was seen in tests that passed."""
    if report.when == "call" and report.passed:
        OBSERVATIONS.passed[report.nodeid.rpartition("tests/compat/")[2]] = None


def pytest_sessionfinish() -> None:
    """Save what was seen, if `python -m tests.compat.page` asked for it."""
    if path := os.environ.get("COMPAT_OBSERVED"):
        OBSERVATIONS.save(Path(path))
