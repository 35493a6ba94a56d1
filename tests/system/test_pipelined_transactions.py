"""Transactions with several batches in flight: each is committed, and its records are in order.

A leader asks the transaction's coordinator before the first batch, mostly on another broker; what
the producer sends meanwhile must not come past it. franz-go is built from tests/system/franz.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import confluent_kafka
import pytest

from minikafka import Admin, Consumer, NewTopic, Producer, TopicPartition

from ..support.cluster import Cluster, running_cluster
from .conftest import wait_for_full_isr

pytestmark = pytest.mark.slow

PARTITIONS = 3
TRANSACTIONS = 60
BATCHES = 8
"""Of each transaction: more than may be in flight."""
FRANZ = Path(__file__).parent / "franz"
DOWNLOAD_WITHIN_S = 20
BUILD_WITHIN_S = 120
RUN_WITHIN_S = 60
Writer = Callable[[str, str], None]


def ours(bootstrap: str, topic: str) -> None:
    """Write them by our producer, every record a batch."""
    with Producer(bootstrap, transactional_id="ours", batch_size=1, linger_ms=0) as producer:
        for turn in range(TRANSACTIONS):
            with producer.transaction():
                for number in range(BATCHES):
                    value = b"%d-%d" % (turn, number)
                    producer.send(topic, value, partition=turn % PARTITIONS)


def librdkafka(bootstrap: str, topic: str) -> None:
    """Write them by confluent-kafka, every record a batch."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "librdkafka",
            "batch.num.messages": 1,
            "linger.ms": 0,
        }
    )
    producer.init_transactions(RUN_WITHIN_S)
    for turn in range(TRANSACTIONS):
        producer.begin_transaction()
        for number in range(BATCHES):
            producer.produce(topic, b"%d-%d" % (turn, number), partition=turn % PARTITIONS)
        producer.commit_transaction(RUN_WITHIN_S)


def franz_go(bootstrap: str, topic: str) -> None:
    """Write them by franz-go, a record every two milliseconds."""
    command = [str(built()), bootstrap, topic, str(TRANSACTIONS), str(BATCHES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_WITHIN_S)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0\n", done.stderr


@cache
def built() -> Path:
    """Build the program once for every content of its folder; skip where Go or a module is missing.

    GOTOOLCHAIN=local: an older Go must not fetch a newer one.
    """
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    sources = sorted(FRANZ.iterdir())
    content = b"".join(each.read_bytes() for each in sources)
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = cache_home / "minikafka-system" / hashlib.sha256(content).hexdigest()[:16]
    if place.exists():
        return place
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    fetch = ["go", "mod", "download"]
    try:
        done = subprocess.run(
            fetch, cwd=FRANZ, env=environment, capture_output=True, timeout=DOWNLOAD_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"go mod download takes longer than {DOWNLOAD_WITHIN_S} s")
    if done.returncode != 0:
        pytest.skip(f"go mod download: {done.stderr.decode()[-300:]}")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as made:
        program = Path(made) / "program"
        build = ["go", "build", "-o", str(program), "."]
        subprocess.run(build, cwd=FRANZ, env=environment, timeout=BUILD_WITHIN_S, check=True)
        program.replace(place)
    return place


def committed(bootstrap: str, topic: str) -> list[list[bytes | None]]:
    """What readers of committed transactions find in each partition."""
    places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
    with Consumer(
        bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        found: list[list[bytes | None]] = [[] for _ in places]
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(timeout_ms=1000):
                found[record.partition].append(record.value)
        return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One for all writers: each has a topic and a transactional id of its own."""
    with running_cluster(tmp_path_factory.mktemp("pipelined"), brokers=3) as cluster:
        yield cluster


@pytest.mark.parametrize("write", [ours, librdkafka, franz_go])
def test_x_61_batches_of_a_transaction_in_flight_together_are_committed(
    cluster: Cluster, admin: Admin, write: Writer
) -> None:
    if write is franz_go:
        built()
    topic = f"pipelined-{write.__name__}"
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])
    wait_for_full_isr(admin, topic)
    write(cluster.bootstrap, topic)
    assert committed(cluster.bootstrap, topic) == [
        [
            b"%d-%d" % (turn, number)
            for turn in range(index, TRANSACTIONS, PARTITIONS)
            for number in range(BATCHES)
        ]
        for index in range(PARTITIONS)
    ]
