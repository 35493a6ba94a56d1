"""The tools for groups, transactions and logs, and the admin behind them, on real brokers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka import (
    Admin,
    AdminError,
    Consumer,
    ErrorCode,
    NewTopic,
    OffsetAndMetadata,
    OpenTransaction,
    Producer,
    ProducerFenced,
    TopicPartition,
)
from minikafka.deploy.local_cluster import LocalCluster

from .test_against_cluster import CODE, Minikafka

pytestmark = [pytest.mark.slow, pytest.mark.processes]
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
COUNT = 40


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Topic `a` has two partitions of 20 records; group `g` has read half of the first."""
    with LocalCluster(brokers=3) as made:
        with Admin(made.bootstrap) as admin:
            admin.create_topics([NewTopic("a", 2)])
            with Producer(made.bootstrap) as producer:
                for number in range(COUNT):
                    producer.send("a", b"%d" % number, partition=number % 2, timestamp_ms=number)
            admin.alter_group_offsets("g", {A0: OffsetAndMetadata(10, "half"), A1: 20})
        yield made


@pytest.fixture
def minikafka(cluster: LocalCluster) -> Minikafka:
    return Minikafka(cluster)


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    with Admin(cluster.bootstrap) as made:
        yield made


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line]


def test_a_group_without_members(minikafka: Minikafka, admin: Admin) -> None:
    assert "g\n" in minikafka("consumer-groups", "--list")[0]
    out, err = minikafka("consumer-groups", "--describe", "--group", "g")
    assert "Consumer group 'g' has no active members." in err
    assert rows(out)[1:] == [
        ["g", "a", "0", "10", "20", "10", "-", "-", "-"],
        ["g", "a", "1", "20", "20", "0", "-", "-", "-"],
    ]
    out, _ = minikafka("consumer-groups", "--describe", "--group", "g", "--lag")
    (half, whole) = (row[5:9] for row in rows(out)[1:])
    assert half[:2] == ["10", "10"]
    assert int(half[2]) > 0
    assert float(half[3]) > 1e9, "its records are as old as the epoch"
    assert whole == ["0", "0", "0", "0.0"]
    assert admin.list_group_offsets("g")[A0].metadata == "half"
    out, _ = minikafka("consumer-groups", "--describe", "--group", "g", "--state")
    assert rows(out)[1][0] == "g"
    assert rows(out)[1][-2:] == ["Empty", "0"]
    _, err = minikafka("consumer-groups", "--describe", "--group", "nobody", code=1)
    assert "Consumer group 'nobody' does not exist." in err
    assert ["g", "Classic"] in rows(minikafka("groups", "--list")[0])


def test_a_group_with_a_member(minikafka: Minikafka, cluster: LocalCluster, admin: Admin) -> None:
    with Consumer(
        cluster.bootstrap, group_id="live", group_instance_id="i1", auto_offset_reset="earliest"
    ) as consumer:
        consumer.subscribe(["a"])
        read = 0
        while read < COUNT:
            read += len(consumer.poll(10_000))
        consumer.commit()
        out, _ = minikafka("consumer-groups", "--describe", "--group", "live", "--members")
        assert rows(out)[1][2] == "i1"
        assert rows(out)[1][-1] == "2"
        reset = ("--reset-offsets", "--group", "live", "--all-topics", "--to-earliest")
        _, err = minikafka("consumer-groups", *reset, "--execute", code=1)
        assert "current state is Stable" in err
        _, err = minikafka("consumer-groups", "--delete", "--group", "live", code=1)
        assert "Group 'live' could not be deleted" in err
        with pytest.raises(AdminError) as caught:
            admin.delete_group_offsets("live", [A0])
        assert caught.value.errors["a-0"].code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    admin.remove_members("live", instance_ids=["i1"])
    out, _ = minikafka("consumer-groups", *reset, "--execute")
    assert rows(out)[1:] == [["live", "a", "0", "0"], ["live", "a", "1", "0"]]
    assert admin.list_group_offsets("live") == {A0: OffsetAndMetadata(0), A1: OffsetAndMetadata(0)}
    minikafka("consumer-groups", "--delete-offsets", "--group", "live", "--topic", "a:0")
    assert list(admin.list_group_offsets("live")) == [A1]
    minikafka("consumer-groups", "--delete", "--group", "live")
    with pytest.raises(AdminError) as caught:
        admin.describe_groups(["live"])
    assert caught.value.errors["live"].code is ErrorCode.GROUP_ID_NOT_FOUND


def test_resets_by_time_and_out_of_a_file(minikafka: Minikafka, tmp_path: Path) -> None:
    reset = ("--reset-offsets", "--group", "fresh", "--topic", "a")
    moment = ("--to-datetime", "1970-01-01T00:00:00.011")
    out, _ = minikafka("consumer-groups", *reset, *moment, "--export", "--execute")
    assert out == "a,0,6\na,1,5\n"
    file = tmp_path / "offsets.csv"
    file.write_text(out.replace("a,0,6", "a,0,7"))
    minikafka("consumer-groups", *reset[:3], "--from-file", file, "--execute")
    out, _ = minikafka("consumer-groups", *reset, "--shift-by", "1", "--dry-run", "--export")
    assert out == "a,0,8\na,1,6\n"


def test_the_console_consumer_is_a_member(minikafka: Minikafka) -> None:
    read = ("--group", "console", "--from-beginning", "--timeout-ms", "20000")
    out, err = minikafka("console-consumer", "--include", "a", *read, "--max-messages", COUNT)
    assert sorted(map(int, out.split())) == list(range(COUNT))
    assert f"Processed a total of {COUNT} messages" in err
    out, _ = minikafka("consumer-groups", "--describe", "--group", "console")
    assert [row[5] for row in rows(out)[1:]] == ["0", "0"]


def test_the_performance_tools_in_groups_and_transactions(minikafka: Minikafka) -> None:
    minikafka("topics", "--create", "--topic", "perf", "--partitions", 2)
    send = ("--topic", "perf", "--num-records", 2000, "--record-size", 10, "--throughput", 10_000)
    out, _ = minikafka("producer-perf-test", *send, "--transaction-duration-ms", 50)
    assert out.startswith("2000 records sent, ")
    out, _ = minikafka("transactions", "list")
    assert any(row[0].startswith("performance-producer-") for row in rows(out))
    committed = ("--command-property", "isolation.level=read_committed", "--timeout", 20_000)
    read = ("--topic", "perf", "--num-records", 2000, "--group", "readers", *committed)
    out, _ = minikafka("consumer-perf-test", *read)
    assert out.splitlines()[1].split(", ")[4] == "2000"


def test_transactions_are_seen_and_ended_by_hand(
    minikafka: Minikafka, cluster: LocalCluster, admin: Admin
) -> None:
    admin.create_topics([NewTopic("t", 1)])
    where = TopicPartition("t", 0)
    with Producer(cluster.bootstrap, transactional_id="open") as producer:
        producer.begin_transaction()
        producer.send("t", b"x").result(20)
        out, _ = minikafka("transactions", "describe", "--transactional-id", "open")
        assert rows(out)[1][4] == "Ongoing"
        assert rows(out)[1][-1] == "t-0"
        out, _ = minikafka("transactions", "describe-producers", "--topic", "t", "--partition", 0)
        assert rows(out)[1][-1] == "0"
        out, _ = minikafka("transactions", "find-hanging", "--topic", "t")
        assert len(rows(out)) == 1, "its coordinator knows it"
        (one,) = admin.describe_producers([where])[where]
        fenced = admin.fence_producers(["open"])["open"]
        assert fenced.producer_epoch > one.producer_epoch
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()
    (one,) = admin.describe_producers([where])[where]
    assert one.transaction_start_offset is None
    assert admin.describe_transactions(["open"])["open"].state == "Empty"
    with pytest.raises(AdminError) as caught:
        admin.describe_transactions(["nobody"])
    assert caught.value.errors["nobody"].code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    late = OpenTransaction(where, one.producer_id, 0, one.coordinator_epoch or 0)
    with pytest.raises(AdminError) as caught:
        admin.abort_transaction(late._replace(producer_epoch=-1))
    assert caught.value.errors["t-0"].code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_logs_are_measured_and_cut(minikafka: Minikafka, admin: Admin, tmp_path: Path) -> None:
    assert minikafka("get-offsets", "--topic", "a")[0] == "a:0:20\na:1:20\n"
    file = tmp_path / "offsets.json"
    wanted = [{"topic": "a", "partition": 0, "offset": 5}]
    file.write_text(json.dumps({"partitions": wanted, "version": 1}))
    out, _ = minikafka("delete-records", "--offset-json-file", file)
    assert out.splitlines()[-1] == "partition: a-0\tlow_watermark: 5"
    out, _ = minikafka("get-offsets", "--topic-partitions", "a:0", "--time", "earliest")
    assert out == "a:0:5\n"
    out, _ = minikafka("log-dirs", "--describe", "--topic-list", "a")
    document = json.loads(out.splitlines()[-1])
    sizes = [
        replica["size"]
        for broker in document["brokers"]
        for directory in broker["logDirs"]
        for replica in directory["partitions"]
    ]
    assert len(sizes) == 6
    assert min(sizes) > 0
    assert sorted(admin.describe_log_dirs([2], [A0])) == [2]


def test_help_of_every_tool_has_an_example() -> None:
    names = ("consumer-groups", "groups", "transactions", "get-offsets", "delete-records")
    for name in (*names, "log-dirs"):
        command = [sys.executable, "-c", CODE, name, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0
        assert f"minikafka {name} --bootstrap-server localhost:9092" in done.stdout
