"""Only an out-of-sync replica is alive: no leader, until somebody accepts the loss at run time."""

import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest

from minikafka import Admin, ErrorCode, NewTopic, PartitionDescription

from ..support.cluster import Cluster, wait_until
from ..support.wire import produce
from .conftest import partition_of, wait_for_full_isr

pytestmark = pytest.mark.slow

KEY = "unclean.leader.election.enable"


def by_command(bootstrap: str, topic: str) -> None:
    """Switch it on as an operator does."""
    command = [str(Path(sys.executable).parent / "minikafka"), "topics", "--alter"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--config", f"{KEY}=true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def by_incremental_alter_configs(bootstrap: str, topic: str) -> None:
    """Switch it on as a foreign admin client does."""
    confluent: Any = confluent_kafka.admin
    admin = confluent.AdminClient({"bootstrap.servers": bootstrap})
    entry = confluent.ConfigEntry(
        KEY, "true", incremental_operation=confluent.AlterConfigOpType.SET
    )
    resource = confluent.ConfigResource(
        confluent.ResourceType.TOPIC, topic, incremental_configs=[entry]
    )
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(10)


SWITCHED_ON: dict[str, Callable[[str, str], None]] = {
    "lossy-command": by_command,
    "lossy-client": by_incremental_alter_configs,
}
"""How it is switched on, by topic: all of them live through the same kills."""


def led_by(admin: Admin, topic: str, leader: int) -> PartitionDescription | None:
    """The partition, once this broker (-1: nobody) leads it."""
    found = partition_of(admin, topic)
    return found if found.leader_id == leader else None


def has_isr(admin: Admin, topic: str, isr: tuple[int, ...]) -> bool:
    """Whether these replicas are in sync, and no other."""
    return partition_of(admin, topic).isr == isr


def test_an_unclean_leader_is_elected_only_when_it_is_allowed(
    cluster: Cluster, admin: Admin
) -> None:
    config = {"min.insync.replicas": "1", KEY: "false"}
    topics = [NewTopic(name, assignments={0: (1, 2)}, configs=config) for name in SWITCHED_ON]
    admin.create_topics(topics)
    first, second, third = cluster.brokers
    for topic in SWITCHED_ON:
        assert produce(first.address, topic, [b"0", b"1"], acks=-1).error_code == ErrorCode.NONE
    second.kill()
    for topic in SWITCHED_ON:
        wait_until(partial(has_isr, admin, topic, (1,)))
        assert produce(first.address, topic, [b"2", b"3", b"4"], acks=-1).base_offset == 2
    first.kill()
    second.start()
    with Admin(third.address) as near:
        for topic, switch_on in SWITCHED_ON.items():
            before = wait_until(partial(led_by, near, topic, -1))
            assert before.isr == ()
            switch_on(third.address, topic)
            after = wait_until(partial(led_by, near, topic, 2))
            assert after.leader_epoch == before.leader_epoch + 1
            assert after.isr == (2,)
            assert produce(second.address, topic, [b"new"], acks=1).base_offset == 2
    first.start()
    for topic in SWITCHED_ON:
        wait_for_full_isr(admin, topic)
    logs = "".join(broker.log() for broker in cluster.brokers)
    lines = [line for line in logs.splitlines() if "lost offsets" in line]
    assert len(lines) == len(SWITCHED_ON)
    for topic in SWITCHED_ON:
        (line,) = [line for line in lines if f"{topic}-0" in line]
        assert re.search(rf"{topic}-0.*lost offsets 2 to 4", line)
