"""The examples of docs/examples keep what they promise, killed in the middle of their work."""

import itertools
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka import Admin, Consumer, NewTopic, Producer, TopicPartition

from ..support.cluster import Cluster, running_cluster

pytestmark = [pytest.mark.slow, pytest.mark.processes]
SINGLE = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
COUNT = 300
numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(
        tmp_path_factory.mktemp("examples"), brokers=1, broker_settings=SINGLE
    ) as one:
        yield one


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic of two partitions with numbered records."""
    name = f"numbers-{next(numbers)}"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    with Producer(cluster.bootstrap) as producer:
        for number in range(COUNT):
            producer.send(name, b"%d" % number, partition=number % 2)
    return name


def start(example: str, cluster: Cluster, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(EXAMPLES / example), cluster.bootstrap, *arguments]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        # Who runs the tests in the background of a shell has made them deaf to it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # One that says nothing would be read from for ever.
    watchdog = threading.Timer(120, process.kill)
    watchdog.daemon = True
    watchdog.start()
    return process


def lines(process: "subprocess.Popen[str]", count: int) -> list[int]:
    assert process.stdout is not None
    return [int(process.stdout.readline()) for _ in range(count)]


def finish(process: "subprocess.Popen[str]", how: signal.Signals) -> list[int]:
    """End it and take the lines it had still written."""
    process.send_signal(how)
    assert process.stdout is not None
    rest = process.stdout.read()  # communicate would pass over what readline has buffered
    process.stdout.close()
    process.wait(60)
    return [int(line) for line in rest.split() if line]


def wait_until_all_is_committed(cluster: Cluster, topic: str) -> None:
    ends = {TopicPartition(topic, index): COUNT // 2 for index in range(2)}
    with Consumer(cluster.bootstrap, group_id="group") as watch:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            found = watch.committed(list(ends))
            if {at: one.offset if one else 0 for at, one in found.items()} == ends:
                return
            time.sleep(0.05)
    raise AssertionError(f"not all is committed: {found}")


def killed_in_the_middle(example: str, cluster: Cluster, topic: str) -> Counter[int]:
    """How often each record was worked on, by a process killed after 25 and by its successor.

    The group waits for the dead one's session to end before its successor gets anything.
    """
    first = start(example, cluster, topic, "group")
    done = lines(first, 25) + finish(first, signal.SIGKILL)
    second = start(example, cluster, topic, "group")
    wait_until_all_is_committed(cluster, topic)
    done += finish(second, signal.SIGINT)
    assert second.returncode == 0
    return Counter(done)


def test_at_least_once_skips_nothing(cluster: Cluster, topic: str) -> None:
    done = killed_in_the_middle("at_least_once.py", cluster, topic)
    assert sorted(done) == list(range(COUNT))


def test_at_most_once_repeats_nothing(cluster: Cluster, topic: str) -> None:
    done = killed_in_the_middle("at_most_once.py", cluster, topic)
    assert set(done.values()) == {1}
    assert len(done) > COUNT - 25


def test_exactly_once_neither_skips_nor_repeats(cluster: Cluster, topic: str) -> None:
    target = f"{topic}-results"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(target, 2, 1)])
    results: list[int] = []
    with Consumer(
        cluster.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        reader.subscribe([target])
        worker = start("exactly_once.py", cluster, topic, target, "group", "worker-1")
        for wanted in (25, 100, COUNT):
            deadline = time.monotonic() + 60
            while len(results) < wanted:
                assert time.monotonic() < deadline, f"{len(results)} of {wanted} results"
                results += [int(one.value or b"") for one in reader.poll(1000)]
            if wanted < COUNT:
                finish(worker, signal.SIGKILL)
                worker = start("exactly_once.py", cluster, topic, target, "group", "worker-1")
        wait_until_all_is_committed(cluster, topic)
        finish(worker, signal.SIGINT)
        assert worker.returncode == 0
        results += [int(one.value or b"") for one in reader.poll(500)]
    assert sorted(results) == list(range(COUNT))


def test_an_order_service_bills_once_what_is_paid_and_drops_what_is_not(cluster: Cluster) -> None:
    process = start("order_service.py", cluster)
    told, _ = process.communicate(timeout=110)
    assert process.returncode == 0
    said = told.splitlines()
    billed = sorted(line for line in said if ": billed " in line)
    assert billed == [
        "coffee: billed 9.00 EUR",
        "salt: billed 10500.00 EUR",
        "tea: billed 12.00 EUR",
    ]
    assert said.count("coffee: the provider is down") == 3
    assert said.count("milk: not paid in time") == 1
    assert "1 letter requeued." in said
    assert any(line.startswith("  To ") and "timeouts-0@0" in line for line in said)
