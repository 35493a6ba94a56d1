"""Carries out changes: turns the checked fields of a form into one call of the admin."""

import json
from collections.abc import Awaitable, Callable
from typing import Final

from ...client.admin.admin import Admin
from ...client.admin.config_types import ConfigChange, ConfigResource
from ...client.admin.topic_types import ElectionType, NewTopic
from ...client.admin.transaction_types import OpenTransaction
from ...client.cli.reassignment import from_json
from ...protocol.errors import ErrorCode
from ...protocol.messages.create_topics import BROKER_DEFAULT
from ...protocol.messages.incremental_alter_configs import ConfigOperation
from ...protocol.types import TopicPartition
from .link import Link
from .views.changes import (
    MOST_PARTITIONS,
    MOST_REPLICAS,
    BadField,
    Given,
    number,
    pairs,
    record_bytes,
)
from .views.words import plural

MOST_HEADERS: Final = 100
MOST_PARTITION: Final = 2**31 - 1
"""The largest partition number, as Kafka numbers partitions with signed 32 bits."""


async def _create_topic(admin: Admin, given: Given) -> str:
    topic = NewTopic(
        given["topic"],
        number("Partitions", given["partitions"] or str(BROKER_DEFAULT), MOST_PARTITIONS),
        number("Replicas", given["replicas"] or str(BROKER_DEFAULT), MOST_REPLICAS),
        configs=pairs("Configs", given["configs"]),
    )
    await admin.create_topics([topic])
    return f"Topic {given['topic']} is created."


async def _delete_topic(admin: Admin, given: Given) -> str:
    if given["again"] != given["topic"]:
        raise BadField("The name again: is another one than the topic's")
    await admin.delete_topics([given["topic"]])
    return f"Topic {given['topic']} is deleted."


async def _add_partitions(admin: Admin, given: Given) -> str:
    count = number("Partitions in all", given["partitions"], MOST_PARTITIONS)
    await admin.create_partitions({given["topic"]: count})
    return f"Topic {given['topic']} has {plural(count, 'partition')}."


async def _delete_records(admin: Admin, given: Given) -> str:
    where = TopicPartition(given["topic"], number("Partition", given["partition"], MOST_PARTITION))
    begins = await admin.delete_records({where: number("Before offset", given["offset"])})
    return f"The log of {where.topic}-{where.partition} begins at offset {begins[where]} now."


async def _set_config(admin: Admin, given: Given) -> str:
    resource = resource_of(given["of"])
    if given["value"]:
        change = ConfigChange(given["key"], given["value"])
    else:
        change = ConfigChange(given["key"], None, ConfigOperation.DELETE)
    await admin.incremental_alter_configs({resource: [change]})
    return f"{given['key']} of {resource} is {given['value'] or 'at its default'}."


async def _delete_group(admin: Admin, given: Given) -> str:
    await admin.delete_groups([given["group"]])
    return f"Group {given['group']} is deleted."


async def _elect(admin: Admin, given: Given) -> str:
    wanted = None
    if given["topic"]:
        wanted = [
            TopicPartition(
                given["topic"], number("Partition", given["partition"] or "0", MOST_PARTITION)
            )
        ]
    found = await admin.elect_leaders(ElectionType.PREFERRED, wanted)
    refused = {
        f"{topic}-{index}: {error}": None
        for (topic, index), error in found.items()
        if error is not None and error.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if refused:
        raise BadField("; ".join(list(refused)[:5]))
    elected = sum(error is None for error in found.values())
    return f"{plural(elected, 'leader')} elected."


async def _reassign(admin: Admin, given: Given) -> str:
    plan = from_json(_json(given["plan"]))
    await admin.alter_partition_reassignments(plan)
    return f"{plural(len(plan), 'partition')} on the move."


async def _cancel(admin: Admin, given: Given) -> str:
    plan = from_json(_json(given["plan"]))
    await admin.alter_partition_reassignments(dict.fromkeys(plan))
    return f"The move of {plural(len(plan), 'partition')} is cancelled."


async def _abort(admin: Admin, given: Given) -> str:
    where = TopicPartition(given["topic"], number("Partition", given["partition"], MOST_PARTITION))
    offset = number("First offset", given["offset"])
    producers = (await admin.describe_producers([where]))[where]
    for one in producers:
        if one.transaction_start_offset == offset:
            epoch = one.coordinator_epoch or 0
            found = OpenTransaction(where, one.producer_id, one.producer_epoch, epoch)
            await admin.abort_transaction(found)
            return f"The transaction of producer {one.producer_id} is aborted on the partition."
    raise BadField(f"First offset: no open transaction begins at {offset}")


Perform = Callable[[Admin, Given], Awaitable[str]]
BY_ADMIN: Final[dict[str, Perform]] = {
    "create-topic": _create_topic,
    "delete-topic": _delete_topic,
    "add-partitions": _add_partitions,
    "delete-records": _delete_records,
    "set-config": _set_config,
    "delete-group": _delete_group,
    "elect-preferred": _elect,
    "reassign": _reassign,
    "cancel-reassignment": _cancel,
    "abort-transaction": _abort,
}


async def perform(link: Link, name: str, given: Given) -> str:
    """Carry out a change, and return a sentence that states the result.

    Raise BadField if a field cannot be used, another MinikafkaError if the cluster refuses.
    """
    if name == "produce":
        return await _produce(link, given)

    async def change(admin: Admin) -> str:
        return await BY_ADMIN[name](admin, given)

    try:
        return await link.ask(change)
    finally:
        link.forget()


async def _produce(link: Link, given: Given) -> str:
    headers = pairs("Headers", given["headers"])
    if len(headers) > MOST_HEADERS:
        raise BadField(f"Headers: {MOST_HEADERS} are allowed")
    key = record_bytes("Key", given["key"], given["key_form"])
    value = record_bytes("Value", given["value"], given["value_form"])
    async with link.producer() as producer:
        sent = await producer.send(
            given["topic"],
            value,
            key=key,
            partition=number("Partition", given["partition"], MOST_PARTITION)
            if given["partition"]
            else None,
            headers=[(name, text.encode()) for name, text in headers.items()],
        )
    return f"The record is at offset {sent.offset} of {sent.topic}-{sent.partition}."


def resource_of(text: str) -> ConfigResource:
    """Read `topic:NAME`, `broker:ID` or `broker:`. Raise BadField for anything else."""
    kind, _, name = text.partition(":")
    if kind == "topic" and name:
        return ConfigResource.topic(name)
    if kind == "broker" and (not name or name.isdecimal()):
        return ConfigResource.broker(int(name) if name else None)
    raise BadField(f"Of: {text[:80]!r} is not topic:NAME, broker:ID or broker:")


def _json(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadField(f"Plan: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadField("Plan: must be an object")
    return found
