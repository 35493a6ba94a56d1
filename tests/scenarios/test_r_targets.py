"""Scenarios R: records name the topic to which they are forwarded, and who may write to it."""

from typing import Any

import pytest

from minikafka import Acl, AclOperation, AclPattern, AclPermission, AclResource
from minikafka.client.errors import AdminError, DeliveryFailed
from minikafka.client.producer.producer import Producer
from minikafka.protocol.delays import DELAY_MS
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.header_targets import PARTITION, TARGET

from ..simulation.stage import Stage, staged
from .delay_stage import MIN_ISR, headers_of, in_target, until_idle

OPEN = {
    "authorizer.class.name": "StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
KEYS = {"minikafka.delay.target": "header", "minikafka.delay.targets": "a, eu-*"}


async def topics(stage: Stage, settings: dict[str, str] | None = None) -> None:
    """The source "later" of broker 1, and the targets "a", "eu-1" and "us"."""
    await stage.create_topic("a", [[2, 3, 1], [2, 3, 1]], configs=MIN_ISR)
    await stage.create_topic("eu-1", [[3, 1, 2]], configs=MIN_ISR)
    await stage.create_topic("us", [[3, 1, 2]], configs=MIN_ISR)
    configs = {**MIN_ISR, **KEYS, **(settings or {})}
    await stage.create_topic("later", [[1, 2, 3]], configs=configs)


async def send(
    stage: Stage, *sent: dict[str, bytes], delay_ms: int = 100, topic: str = "later", **options: Any
) -> None:
    """Produce records with these headers, in one batch; the value is the target's name."""
    client = await stage.client()

    async def ask() -> None:
        async with Producer(
            bootstrap_servers=stage.cluster.bootstrap,
            runtime=client.runtime,
            linger_ms=5,
            **options,
        ) as producer:
            waiting = [
                producer.send(
                    topic,
                    said.get(TARGET, b"none"),
                    headers=[(DELAY_MS, b"%d" % delay_ms), *said.items()],
                )
                for said in sent
            ]
            for each in waiting:
                await each

    await client.ask(ask)


@staged()
async def test_r_60_each_record_goes_to_the_topic_that_it_names(stage: Stage) -> None:
    await topics(stage)
    await send(stage, {TARGET: b"a"}, {TARGET: b"eu-1"}, {TARGET: b"a"}, compression_type="gzip")
    await send(stage, {TARGET: b"eu-1"})
    await until_idle(stage)
    assert await stage.read("a") == [b"a", b"a"]
    found = await in_target(stage, topic="eu-1")
    assert [record.value for record in found] == [b"eu-1", b"eu-1"]
    assert TARGET not in headers_of(found[0])


@staged()
async def test_r_60_a_record_that_names_none_or_a_wrong_target_is_refused(stage: Stage) -> None:
    await topics(stage)
    await stage.create_topic("eu-later", configs={**KEYS, "minikafka.delay.targets": "*"})
    wrong: list[dict[str, bytes]] = [
        {},
        {TARGET: b"us"},
        {TARGET: b"eu-none"},
        {TARGET: b"eu-later"},
    ]
    for said in wrong:
        with pytest.raises(DeliveryFailed) as refused:
            await send(stage, said)
        assert refused.value.error.code is ErrorCode.INVALID_RECORD
    assert stage.partition(1, "later").log_end_offset == 0


@staged()
async def test_r_60_a_target_is_judged_again_when_the_record_is_due(stage: Stage) -> None:
    """By the list as it is then; and nothing is forwarded to a topic whose records name theirs."""
    await stage.create_topic("dead", 1)
    await topics(stage, {"minikafka.deadletter.topic": "dead"})
    await send(stage, {TARGET: b"a"}, {TARGET: b"eu-1"}, delay_ms=3_000)
    await stage.alter_configs("later", {"minikafka.delay.targets": "eu-1"})
    settings = {**KEYS, "minikafka.delay.targets": "us"}
    await stage.alter_configs("eu-1", settings)
    await until_idle(stage)
    said = [headers_of(each)["__dlq.errors.message"] or b"" for each in await in_dead(stage)]
    assert [each.partition(b":")[0] for each in said] == [b"UNTARGETED", b"INVALID_RECORD"]
    assert (await stage.read("a"), await stage.read("eu-1")) == ([], [])


async def in_dead(stage: Stage) -> list[Any]:
    found = await in_target(stage, topic="dead")
    return sorted(found, key=lambda record: record.value or b"")


@staged()
async def test_r_60_a_record_may_name_its_partition(stage: Stage) -> None:
    await topics(stage, {"minikafka.delay.partition": "header"})
    await send(stage, {TARGET: b"a", PARTITION: b"1"}, {TARGET: b"a", PARTITION: b"3"})
    await send(stage, {TARGET: b"a"})
    with pytest.raises(DeliveryFailed, match="INVALID_RECORD"):
        await send(stage, {TARGET: b"a", PARTITION: b"one"})
    await until_idle(stage)
    counts = [stage.partition(2, "a", index).high_watermark for index in (0, 1)]
    assert counts == [1, 2]


@staged()
async def test_r_60_a_list_of_targets_is_judged_when_it_is_declared(stage: Stage) -> None:
    await topics(stage)
    for wrong in (None, "", "none", "later", "__consumer_offsets", "a/b"):
        with pytest.raises(AdminError, match="INVALID_CONFIG"):
            await stage.alter_configs("later", {"minikafka.delay.targets": wrong})
    with pytest.raises(AdminError, match="nothing is forwarded to a topic"):
        await stage.alter_configs("us", {"minikafka.delay.target": "later"})
    with pytest.raises(AdminError, match="a circle of targets"):
        await stage.alter_configs("a", {"minikafka.delay.target": "later"})


@staged(broker=OPEN, controller=OPEN)
async def test_r_60_the_producer_needs_the_right_to_write_to_the_topic(stage: Stage) -> None:
    await topics(stage)
    await allow_only(stage, "eu-1", "User:bob")
    with pytest.raises(DeliveryFailed) as refused:
        await send(stage, {TARGET: b"a"}, {TARGET: b"eu-1"})
    assert refused.value.error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    await send(stage, {TARGET: b"a"})
    assert stage.partition(1, "later").log_end_offset == 1


async def allow_only(stage: Stage, topic: str, principal: str) -> None:
    """Allow a topic to one principal and nobody else, and wait until all brokers know it."""
    acl = Acl(
        resource_type=AclResource.TOPIC,
        resource_name=topic,
        pattern_type=AclPattern.LITERAL,
        principal=principal,
        host="*",
        operation=AclOperation.ALL,
        permission=AclPermission.ALLOW,
    )
    await stage.admin(lambda admin: admin.create_acls([acl]))
    images = [stage.broker(each).parts.edge.metadata.image for each in (1, 2, 3)]
    await stage.until(lambda: all(image.acls for image in images), "the entry everywhere")


@staged(broker=OPEN, controller=OPEN)
async def test_r_37_in_whose_name_records_are_forwarded_is_asked_when_they_are_due(
    stage: Stage,
) -> None:
    await stage.create_topic("dead", 1)
    more = {
        "minikafka.delay.authorize": "User:alice",
        "minikafka.delay.undeliverable.ms": "2000",
        "minikafka.deadletter.topic": "dead",
    }
    await topics(stage, more)
    await send(stage, {TARGET: b"a"}, {TARGET: b"eu-1"})
    await until_idle(stage)
    assert (await stage.read("a"), await stage.read("eu-1")) == ([b"a"], [b"eu-1"])
    await allow_only(stage, "eu-1", "User:ANONYMOUS")
    await send(stage, {TARGET: b"a"}, {TARGET: b"eu-1"})
    await stage.until(lambda: stage.partition(2, "a").high_watermark == 2, "the other")
    assert await stage.read("dead") == []
    await until_idle(stage)
    assert (await stage.read("eu-1"), await stage.read("dead")) == ([b"eu-1"], [b"eu-1"])
    (dead,) = await in_target(stage, topic="dead")
    message = headers_of(dead)["__dlq.errors.message"] or b""
    assert message.startswith(b"TOPIC_AUTHORIZATION_FAILED")
    await stage.alter_configs("later", {"minikafka.delay.authorize": None})
    await send(stage, {TARGET: b"eu-1"})
    await until_idle(stage)
    assert await stage.read("eu-1") == [b"eu-1", b"eu-1"]


@staged()
async def test_r_37_a_name_that_is_no_principal_is_refused(stage: Stage) -> None:
    await topics(stage)
    for wrong in ("alice", "User:", ":alice"):
        with pytest.raises(AdminError, match="INVALID_CONFIG"):
            await stage.alter_configs("later", {"minikafka.delay.authorize": wrong})
