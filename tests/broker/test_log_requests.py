"""DeleteRecords, DescribeLogDirs and configurations, asked of brokers on the simulated loop."""

import asyncio
from typing import Any

from minikafka import ConfigChange, ConfigResource
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from minikafka.protocol.messages.delete_records import (
    HIGH_WATERMARK,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from minikafka.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.simulation.stage import Stage, staged


async def delete(
    stage: Stage, broker: int, topic: str, offset: int, *, timeout_ms: int = 5_000, index: int = 0
) -> tuple[ErrorCode, int]:
    partition = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=timeout_ms
    )
    response = await stage.ask(broker, request)
    ((result,),) = [each.partitions for each in response.topics]
    return ErrorCode(result.error_code), result.low_watermark


def starts(stage: Stage, topic: str) -> list[int]:
    return [stage.partition(broker, topic).log_start_offset for broker in (1, 2, 3)]


@staged(brokers=3)
async def test_every_live_replica_begins_where_it_was_asked_to(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", *(b"%d" % n for n in range(10)))
    assert await delete(stage, 1, "t", 4) == (ErrorCode.NONE, 4)
    assert starts(stage, "t") == [4, 4, 4]
    assert await stage.read("t", offset=4) == [b"%d" % n for n in range(4, 10)]
    assert await delete(stage, 1, "t", 2) == (ErrorCode.NONE, 4), "never back"
    assert await delete(stage, 1, "t", HIGH_WATERMARK) == (ErrorCode.NONE, 10)
    assert starts(stage, "t") == [10, 10, 10]
    assert await stage.send("t", b"next") == [10]


@staged(brokers=3)
async def test_what_cannot_be_deleted_is_refused(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.create_topic("c", [[1, 2, 3]], configs={"cleanup.policy": "compact"})
    await stage.send("t", b"a", b"b")
    assert await delete(stage, 1, "t", 3) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await delete(stage, 1, "t", -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert await delete(stage, 1, "c", 0) == (ErrorCode.POLICY_VIOLATION, -1)
    assert await delete(stage, 2, "t", 1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await delete(stage, 1, "nothing", 1) == (unknown, -1)
    assert await delete(stage, 1, "t", 1, index=7) == (unknown, -1)
    internal = ErrorCode.INVALID_TOPIC_EXCEPTION
    assert await delete(stage, 1, "__consumer_offsets", 1) == (internal, -1)
    assert starts(stage, "t") == [0, 0, 0]


@staged(brokers=3)
async def test_a_follower_that_does_not_hear_of_it_is_waited_for(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    await stage.send("t", b"a", b"b", b"c")
    stage.block(3, 1)
    stage.block(1, 3)
    timed_out = (ErrorCode.REQUEST_TIMED_OUT, -1)
    assert await delete(stage, 1, "t", 2, timeout_ms=700) == timed_out
    assert stage.partition(1, "t").log_start_offset == 2, "it is done, and may be asked again"
    waiting = asyncio.ensure_future(delete(stage, 1, "t", 2, timeout_ms=60_000))
    await stage.sleep(0.5)
    assert not waiting.done()
    stage.heal()
    assert await waiting == (ErrorCode.NONE, 2)
    assert starts(stage, "t") == [2, 2, 2]


@staged(brokers=3)
async def test_a_dead_broker_is_not_waited_for_and_follows_later(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    await stage.send("t", b"a", b"b", b"c")
    stage.kill(3)
    await stage.until(lambda: stage.is_fenced(3), "broker 3 is fenced")
    await stage.until(
        lambda: stage.broker(1).parts.edge.whereabouts.endpoint(3, "PLAINTEXT") is None, "1 knows"
    )
    assert await delete(stage, 1, "t", 2) == (ErrorCode.NONE, 2)
    stage.start(3)
    await stage.ready(3)
    await stage.until(lambda: starts(stage, "t") == [2, 2, 2], "broker 3 begins there too")


@staged(brokers=3)
async def test_the_directories_of_a_broker_and_what_is_in_them(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3], [2, 3, 1]])
    await stage.create_topic("u", [[1, 2, 3]])
    await stage.send("t", b"a" * 100)

    async def ask(*topics: DescribableLogDirTopic) -> Any:
        return (await stage.ask(1, DescribeLogDirsRequest(topics=list(topics) or None))).results

    (directory,) = await ask()
    assert directory.error_code == 0
    assert directory.log_dir == stage.daemon(1).properties["log.dirs"]
    assert directory.total_bytes >= directory.usable_bytes > 0
    sizes = {
        (topic.name, row.partition_index): row.partition_size
        for topic in directory.topics
        for row in topic.partitions
    }
    assert list(sizes) == [("t", 0), ("t", 1), ("u", 0)]
    assert sizes["t", 0] > 100
    assert sizes["t", 1] == sizes["u", 0] == 0
    (directory,) = await ask(DescribableLogDirTopic(topic="t", partitions=[1, 9]))
    ((name, rows),) = [(topic.name, topic.partitions) for topic in directory.topics]
    assert (name, [row.partition_index for row in rows]) == ("t", [1])


@staged(brokers=2)
async def test_what_has_a_configuration_and_whole_configurations(stage: Stage) -> None:
    await stage.create_topic("t", replication=2, configs={"retention.ms": "5"})
    await stage.create_topic("u", replication=2)

    async def listed(*types: int, version: int | None = None) -> Any:
        request = ListConfigResourcesRequest(resource_types=list(types))
        return await stage.ask(1, request, version)

    every = await listed()
    names = [(each.resource_type, each.resource_name) for each in every.config_resources]
    assert names == [(2, "t"), (2, "u"), (4, "1"), (4, "2"), (8, "1"), (8, "2")]
    assert [each.resource_name for each in (await listed(4)).config_resources] == ["1", "2"]
    assert (await listed(version=0)).config_resources == []
    every_minute = ConfigChange("interval.ms", "60000")
    subscription = ConfigResource.client_metrics("all")
    await stage.admin(lambda a: a.incremental_alter_configs({subscription: [every_minute]}))
    await stage.sleep(1)
    (named,) = (await listed(version=0)).config_resources
    assert named.resource_name == "all"
    described = await stage.admin(lambda admin: admin.describe_configs([subscription]))
    assert described[subscription]["interval.ms"].value == "60000"
    deleted = ConfigChange("interval.ms", None, ConfigOperation.DELETE)
    await stage.admin(lambda a: a.incremental_alter_configs({subscription: [deleted]}))
    await stage.sleep(1)
    assert (await listed(16)).config_resources == []
    assert (await listed(3)).error_code == ErrorCode.UNSUPPORTED_VERSION

    async def alter(name: str, kind: int, **configs: str | None) -> ErrorCode:
        rows = [AlterableConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)
        response = await stage.ask(2, AlterConfigsRequest(resources=[resource]))
        return ErrorCode(response.responses[0].error_code)

    assert await alter("t", 2, segment_bytes="1000") is ErrorCode.NONE
    log = stage.partition(1, "t").log
    await stage.until(lambda: log.config.segment_bytes == 1000, "the broker obeys")
    assert log.config.retention_ms == 7 * 24 * 60 * 60 * 1000, "back to its default"
    assert await alter("t", 2, segment_bytes=None) is ErrorCode.INVALID_REQUEST
    assert await alter("1", 4, node_id="7") is ErrorCode.INVALID_CONFIG
    assert await alter("nothing", 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
