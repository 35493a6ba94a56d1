"""Only an out-of-sync replica is alive: no leader, until somebody accepts the loss at run time."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest

from minikafka import Admin, ErrorCode, NewTopic, PartitionDescription

from ..support.cluster import Cluster, wait_until
from ..support.wire import produce
from .conftest import partition_of, wait_for_full_isr

pytestmark = pytest.mark.slow

TOPIC = "lossy"
KEY = "unclean.leader.election.enable"
LOST = re.compile(r"lossy-0.*lost offsets 2 to 4")


def by_command(bootstrap: str) -> None:
    """Switch it on as an operator does."""
    command = [str(Path(sys.executable).parent / "minikafka"), "topics", "--alter"]
    command += ["--bootstrap-server", bootstrap, "--topic", TOPIC, "--config", f"{KEY}=true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def by_incremental_alter_configs(bootstrap: str) -> None:
    """Switch it on as a foreign admin client does."""
    confluent: Any = confluent_kafka.admin
    admin = confluent.AdminClient({"bootstrap.servers": bootstrap})
    entry = confluent.ConfigEntry(
        KEY, "true", incremental_operation=confluent.AlterConfigOpType.SET
    )
    resource = confluent.ConfigResource(
        confluent.ResourceType.TOPIC, TOPIC, incremental_configs=[entry]
    )
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


def led_by(admin: Admin, leader: int) -> PartitionDescription | None:
    """The partition, once this broker (-1: nobody) leads it."""
    found = partition_of(admin, TOPIC)
    return found if found.leader_id == leader else None


@pytest.mark.parametrize("switch_on", [by_command, by_incremental_alter_configs])
def test_an_unclean_leader_is_elected_only_when_it_is_allowed(
    cluster: Cluster, admin: Admin, switch_on: Callable[[str], None]
) -> None:
    config = {"min.insync.replicas": "1", KEY: "false"}
    admin.create_topics([NewTopic(TOPIC, assignments={0: (1, 2)}, configs=config)])
    first, second, third = cluster.brokers
    assert produce(first.address, TOPIC, [b"0", b"1"], acks=-1).error_code == ErrorCode.NONE
    second.kill()
    wait_until(lambda: partition_of(admin, TOPIC).isr == (1,))
    assert produce(first.address, TOPIC, [b"2", b"3", b"4"], acks=-1).base_offset == 2
    first.kill()
    second.start()
    with Admin(third.address) as near:
        before = wait_until(lambda: led_by(near, -1))
        assert before.isr == ()
        switch_on(third.address)
        after = wait_until(lambda: led_by(near, 2))
    assert after.leader_epoch == before.leader_epoch + 1
    assert after.isr == (2,)
    assert produce(second.address, TOPIC, [b"new"], acks=1).base_offset == 2
    first.start()
    wait_for_full_isr(admin, TOPIC)
    logs = "".join(broker.log() for broker in cluster.brokers)
    lines = [line for line in logs.splitlines() if "lost offsets" in line]
    assert len(lines) == 1
    assert LOST.search(lines[0])
