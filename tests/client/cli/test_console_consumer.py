"""`minikafka console-consumer` in this process, against a cluster of fake brokers."""

import pytest

from minikafka.client.cli import console_consumer

from ..fake_broker import FakeCluster
from ..test_sync import cluster as cluster
from .conftest import Run


@pytest.mark.parametrize("command", ["console-consumer", "consumer-perf-test"])
def test_a_topic_that_does_not_exist_is_waited_for_as_long_as_the_timeout_says(
    run: Run, monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, command: str
) -> None:
    monkeypatch.setattr(console_consumer, "LEAST_TOPIC_WAIT_MS", 1)
    timeout = "--timeout-ms" if command == "console-consumer" else "--timeout"
    more = () if command == "console-consumer" else ("--num-records", 1)
    to = ("--bootstrap-server", cluster.bootstrap[0])
    code, out, err = run(command, *to, "--topic", "nope", timeout, 1, *more)
    assert (code, err) == (1, "minikafka: nope: the cluster does not have it\n"), out
