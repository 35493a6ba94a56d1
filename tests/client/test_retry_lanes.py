"""When a member begins to follow its lanes anew; no broker."""

from typing import Any

from minikafka.client.consumer.retry_lanes import Lanes
from minikafka.client.consumer.retry_policy import RetryPolicy, topics_of
from minikafka.client.group_types import ConsumerGroupMetadata
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.runtime import SystemRuntime

TOPICS = topics_of("g")


class Member:
    """What lanes ask of a consumer."""

    def __init__(self) -> None:
        self.partitions: list[TopicPartition] = []
        self.who = ConsumerGroupMetadata("g")

    def assignment(self) -> list[TopicPartition]:
        return self.partitions

    def group_metadata(self) -> ConsumerGroupMetadata:
        return self.who

    def pause(self, *partitions: TopicPartition) -> None:
        assert [*partitions] == self.partitions


async def test_lanes_are_begun_anew_by_another_member_another_generation_and_other_partitions() -> (
    None
):
    consumer: Any = Member()
    lanes = Lanes(consumer, SystemRuntime(), {}, TOPICS, RetryPolicy(order="key"))

    async def begins() -> bool:
        lanes.order.begin(0, {})
        has_begun = await lanes.follow_group()
        assert lanes.is_open(0) != has_begun
        return has_begun

    consumer.who = ConsumerGroupMetadata("g", 1, "m1")
    assert await begins()
    assert not await begins()
    consumer.partitions = [TopicPartition("orders", 0)]
    assert await begins(), "the generation was known before its partitions"
    consumer.who = ConsumerGroupMetadata("g", 1, "m2")
    assert await begins(), "the group began anew"
    consumer.who = ConsumerGroupMetadata("g", 2, "m2")
    assert await begins()
    assert not await begins()
