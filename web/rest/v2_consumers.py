"""The v2 consumers: created here, used here or, if another proxy has the instance, over there."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.responses import Response

from ...client.errors import ClientClosed
from ...client.group_types import OffsetAndMetadata
from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from . import media
from .call import Call
from .errors import (
    CONSUMER_CONFIG,
    ILLEGAL_STATE,
    NO_INSTANCE,
    OTHER_FORMAT,
    SERIALIZATION,
    UNPROCESSABLE,
    RestError,
)
from .formats import v2_record
from .instances import Instance, gone
from .peers import FORWARDED

MOST_WAIT_MS: Final = 60_000
"""The longest that a read waits for records."""
NOT_HERE: Final = b'"error_code":%d' % NO_INSTANCE.code
"""How another proxy says that it does not have an instance."""
Use = Callable[[Call, Instance], Awaitable[Any]]


async def create(call: Call) -> Any:
    """Create a consumer instance in a group; its settings are those of Confluent's proxy."""
    desk, group = call.desk, str(call.path["group_name"])
    given = await call.json("Instance", CONSUMER_CONFIG, required=False)
    instance_id = given.get("id") or given.get("name") or desk.peers.new_id()
    form = (given.get("format") or media.BINARY).lower()
    if form not in media.FORMATS:
        why = media.NO_REGISTRY if form in media.LATER else f"is none of {', '.join(media.FORMATS)}"
        raise RestError(CONSUMER_CONFIG, f"format: {form[:80]} {why}")
    reset = given.get("auto.offset.reset")
    settings = {"group_id": group, "enable_auto_commit": "false", "client_id": instance_id}
    try:
        consumer = call.held.make_consumer(
            **settings, **({"auto_offset_reset": reset} if reset else {})
        )
    except ConfigError as error:
        raise RestError(CONSUMER_CONFIG, str(error)) from None
    instance = Instance(group, instance_id, call.held.login, form, consumer, desk.runtime)
    instance.commits_by_itself = given.get("auto.commit.enable") not in (False, "false")
    instance.min_bytes = max(given.get("fetch.min.bytes") or 0, 1)
    wait_ms = given.get("consumer.request.timeout.ms") or 0
    instance.request_timeout_ms = wait_ms if wait_ms > 0 else None
    await desk.instances.add(instance)
    uri = f"{call.site.base}/consumers/{group}/instances/{instance_id}"
    return {"instance_id": instance_id, "base_uri": uri}


def of_instance(use: Use) -> Callable[[Call], Awaitable[Any]]:
    """Make a handler that finds the instance of the path, and forwards if another proxy has it."""

    @functools.wraps(use)
    async def handler(call: Call) -> Any:
        group, instance_id = call.path["group_name"], call.path["instance"]
        found = call.desk.instances.find(group, instance_id, call.held.login)
        if found is not None:
            try:
                return await use(call, found)
            except ClientClosed:
                raise gone(group, instance_id) from None
            except ValueError as error:
                raise RestError(ILLEGAL_STATE, f"Illegal state: {error}") from None
        if FORWARDED not in call.request.headers:
            answer = await _forwarded(call, instance_id)
            if answer is not None:
                return answer
        raise gone(group, instance_id)

    return handler


async def _forwarded(call: Call, instance_id: str) -> Response | None:
    urls = call.desk.peers.urls_for(instance_id)
    if not urls:
        return None
    request, body = call.request, await call.body()
    target = request.scope["raw_path"].decode("ascii")
    query = request.scope["query_string"].decode("ascii")
    target += f"?{query}" if query else ""
    for url in urls:
        asking = call.desk.peers.ask(url, request.method, target, request.headers, body)
        # The owner learns in this way that its client has left.
        answer = await call.unless_left(asking)
        if answer is not None and not (answer.status == 404 and NOT_HERE in answer.body):
            headers = {"content-type": answer.content_type} if answer.content_type else {}
            return Response(answer.body, answer.status, headers)
    return None


@of_instance
async def delete(call: Call, instance: Instance) -> Any:
    """Close an instance: it commits if it does so by itself, and leaves its group."""
    await call.desk.instances.delete(instance)


@of_instance
async def subscribe(call: Call, instance: Instance) -> Any:
    """Subscribe an instance to topics, or to all whose name matches a pattern (RE2)."""
    given = await call.json("Subscription")
    if len(given) != 1:
        raise RestError(UNPROCESSABLE, "body: give either topics or topic_pattern")
    await instance.subscribe(given.get("topics", ()), given.get("topic_pattern"))


@of_instance
async def subscription(call: Call, instance: Instance) -> Any:
    """List the topics that an instance is subscribed to."""
    return {"topics": instance.consumer.subscription()}


@of_instance
async def unsubscribe(call: Call, instance: Instance) -> Any:
    """End the subscription of an instance."""
    await instance.unsubscribe()


@of_instance
async def assign(call: Call, instance: Instance) -> Any:
    """Have an instance read exactly these partitions, outside of its group's sharing."""
    partitions = await _places(call)
    for topic, index in partitions:
        await call.held.partitions(topic, index)
    instance.assign(partitions)


@of_instance
async def assignments(call: Call, instance: Instance) -> Any:
    """List the partitions that an instance reads."""
    held = instance.consumer.assignment()
    return {"partitions": [_shown(one) for one in held]}


@of_instance
async def records(call: Call, instance: Instance) -> Any:
    """Read records: until `max_bytes`, or until some are there, or until `timeout` ms."""
    rest = call.desk.settings.rest
    offers = [media.of_format(instance.form), *media.V2_OFFERS]
    try:
        kind = media.chosen(call.request.headers.get("accept"), offers)
    except RestError as error:
        why = f"This instance has the format {instance.form}. {error}"
        raise RestError(OTHER_FORMAT, why) from None
    usual = instance.request_timeout_ms or rest.request_timeout_ms
    wanted_ms = call.number("timeout")
    timeout_ms = min(usual if wanted_ms is None else wanted_ms, MOST_WAIT_MS)
    most = min(call.number("max_bytes") or rest.request_max_bytes, rest.request_max_bytes)
    records = await call.unless_left(instance.read(timeout_ms, most), instance.give_back)
    shown = []
    for record in records:
        try:
            shown.append(v2_record(record, instance.form))
        except ValueError as error:
            where = f"{record.topic}-{record.partition} at offset {record.offset}"
            why = f"{where} is not {instance.form}: {error}; read it as binary, or seek behind it"
            instance.give_back(records)
            raise RestError(SERIALIZATION, why) from None
    answer = call.answer(shown, offers=(kind,))
    instance.answered(records)
    return answer


@of_instance
async def commit(call: Call, instance: Instance) -> Any:
    """Commit offsets, each that of the last record read; without a body, all that was read."""
    wanted = await _offsets(call)
    await instance.commit({at: one._replace(offset=one.offset + 1) for at, one in wanted.items()})
    return {}


@of_instance
async def committed(call: Call, instance: Instance) -> Any:
    """Tell what the group has committed of the partitions in the body."""
    partitions = await _places(call)
    found = await instance.consumer.committed(partitions)
    return call.answer(
        {
            "offsets": [
                {**_shown(at), "offset": one.offset, "metadata": one.metadata}
                for at, one in found.items()
                if one is not None
            ]
        }
    )


@of_instance
async def seek(call: Call, instance: Instance) -> Any:
    """Move an instance to these offsets, the next to read."""
    wanted = await _offsets(call)
    if any(one.offset < 0 for one in wanted.values()):
        raise RestError(UNPROCESSABLE, "offset: must be 0 or more")
    _check_held(instance, list(wanted))
    for at, one in wanted.items():
        instance.moved(at)
        instance.consumer.seek(at, one.offset)


@of_instance
async def seek_begin(call: Call, instance: Instance) -> Any:
    """Move an instance to the first record of these partitions."""
    instance.consumer.seek_to_beginning(*await _moved(call, instance))


@of_instance
async def seek_end(call: Call, instance: Instance) -> Any:
    """Move an instance behind the last record of these partitions."""
    instance.consumer.seek_to_end(*await _moved(call, instance))


async def _moved(call: Call, instance: Instance) -> list[TopicPartition]:
    partitions = await _places(call)
    _check_held(instance, partitions)
    for one in partitions:
        instance.moved(one)
    return partitions


def _check_held(instance: Instance, partitions: list[TopicPartition]) -> None:
    held = instance.consumer.assignment()
    for one in partitions:
        if one not in held:
            why = f"Illegal state: {one.topic}-{one.partition} is not assigned to this instance."
            raise RestError(ILLEGAL_STATE, why)


async def _offsets(call: Call) -> dict[TopicPartition, OffsetAndMetadata]:
    given = await call.json("Commits", required=False)
    return {
        _place(one): OffsetAndMetadata(int(one["offset"]), one.get("metadata") or "")
        for one in given.get("offsets", ())
    }


async def _places(call: Call) -> list[TopicPartition]:
    return [_place(one) for one in (await call.json("Places"))["partitions"]]


def _place(given: dict[str, Any]) -> TopicPartition:
    return TopicPartition(given["topic"], int(given["partition"]))


def _shown(place: TopicPartition) -> dict[str, Any]:
    return {"topic": place.topic, "partition": place.partition}
