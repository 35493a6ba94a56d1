"""Helpers of the scenarios about eligible leaders and recoveries."""

import random
from collections.abc import Sequence
from typing import TypeVar

from minikafka.protocol.control.records import ELIGIBLE_LEADERS
from minikafka.protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    TopicPartitions,
)
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpgradeType,
)

from ..simulation.disk import DirectoryNode
from ..simulation.stage import Stage

T = TypeVar("T")
UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"


class Merciless(random.Random):
    """Random numbers by which a power loss takes everything that was not synced."""

    def choice(self, seq: Sequence[T]) -> T:  # type: ignore[override]
        return seq[0]

    def random(self) -> float:
        return 0.0


async def without_eligible_leaders(stage: Stage) -> None:
    """Disable eligible leader replicas, as in Kafka before version 4.0."""
    update = FeatureUpdateKey(
        feature=ELIGIBLE_LEADERS, max_version_level=0, upgrade_type=UpgradeType.SAFE_DOWNGRADE
    )
    answer = await stage.ask(1, UpdateFeaturesRequest(feature_updates=[update]))
    assert answer.error_code == 0, answer


async def elect(stage: Stage, topic: str, how: ElectionType, broker: int = 1) -> int:
    """ElectLeaders of the topic's first partition; its error code."""
    named = TopicPartitions(topic=topic, partitions=[0])
    request = ElectLeadersRequest(election_type=how, topic_partitions=[named])
    answer = await stage.ask(broker, request)
    return int(answer.replica_election_results[0].partition_result[0].error_code)


async def cut_off(stage: Stage, follower: int, value: bytes, *, acks: str = "all") -> None:
    """The follower hears nothing of leader 1 of "t" any more, and misses this record."""
    stage.cut(1, follower)
    await stage.send("t", value, acks=acks)
    await stage.until(lambda: follower not in stage.state("t").isr, f"{follower} has left the ISR")


async def only_the_leader_in_sync(stage: Stage) -> None:
    """Of replicas (1, 2, 3), 3 and then 2 hear nothing of leader 1 any more; all are alive."""
    await cut_off(stage, 3, b"held by 1 and 2")
    await cut_off(stage, 2, b"held by 1", acks="1")
    assert stage.state("t").isr == (1,)


def holds(stage: Stage, broker: int, replica: str = "t-0") -> bool:
    """Return whether the broker's disk has a directory of this replica."""
    data = stage.disk(broker).root.entries["data"]
    assert isinstance(data, DirectoryNode)
    files = data.entries[f"broker-{broker}"]
    assert isinstance(files, DirectoryNode)
    return replica in files.entries


def lose_power(stage: Stage, *brokers: int) -> None:
    """Cut the power of these brokers; all data that was not synced is lost."""
    for broker in brokers:
        stage.disk(broker).rng = Merciless()
    stage.power_off(*brokers)
