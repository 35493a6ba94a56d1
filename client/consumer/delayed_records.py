"""Reads records of delay topics that wait: what one of them says, and those of a key."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...protocol.delays import DelayRule
from ...protocol.forwarding_keys import RULES, TARGET
from ...protocol.header_targets import BY_HEADER, target_of
from ...protocol.messages.list_delayed import State
from ...protocol.routes import parse_routes
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..admin.admin import Admin
from ..admin.config_types import ConfigResource
from ..admin.delayed_types import DelayedRecord
from ..config import settings_like
from .consumer import Consumer
from .record_trace import RecordTracer
from .retry_batch import Raw

POLL_MS: Final = 500


class ShownRecord(NamedTuple):
    """A record of a delay topic, or of one with rules."""

    record: Raw
    state: State
    due_ms: int
    """The time at which it is or was due, in ms since the epoch; 0 for at once."""
    targets: tuple[str, ...]
    """The topics to which it goes by the present settings; without any it goes nowhere."""


async def show(
    admin: Admin, partition: TopicPartition, offset: int, runtime: Runtime | None = None
) -> ShownRecord:
    """Return a record of a delay topic with its state.

    Raise NoSuchRecord if there is none at this offset, and AdminError with INVALID_REQUEST if it is
    no delay topic.
    """
    found = await admin.describe_delayed(partition, offset)
    record, _ = await RecordTracer(admin, runtime).read(partition, offset)
    resource = ConfigResource.topic(partition.topic)
    entries = (await admin.describe_configs([resource]))[resource]
    config = {name: entry.value or "" for name, entry in entries.items()}
    due_ms = found.due_ms
    if due_ms is None and config[TARGET]:
        rule = DelayRule(config["minikafka.delay.by"], int(config["minikafka.delay.ms"]))
        due_ms = rule.due_or_at_once(record.timestamp_ms, record.headers)
    return ShownRecord(record, found.state, due_ms or 0, _targets(record, config))


def _targets(record: Raw, config: dict[str, str]) -> tuple[str, ...]:
    matched = None
    if config[RULES]:
        matched = parse_routes(config[RULES]).of(record.key, record.headers)
        if matched is None and config["minikafka.route.unmatched"] != "default":
            return ()
    if matched is not None:
        return matched
    target = target_of(record.headers) if config[TARGET] == BY_HEADER else config[TARGET]
    return (target,) if target else ()


async def with_key(
    admin: Admin, found: Sequence[DelayedRecord], key: bytes, runtime: Runtime | None = None
) -> list[DelayedRecord]:
    """Return those of the records that have this key, in the same order; it reads the partitions.

    A record that is deleted meanwhile is left out.
    """
    wanted: dict[TopicPartition, dict[int, None]] = {}
    for each in found:
        wanted.setdefault(each.partition, {})[each.offset] = None
    matching: dict[tuple[TopicPartition, int], None] = {}
    settings = settings_like(admin.config) | {"auto_offset_reset": "earliest"}
    async with Consumer[bytes, bytes].from_config(settings, runtime=runtime) as consumer:
        for partition, offsets in wanted.items():
            consumer.assign([partition])
            consumer.seek(partition, min(offsets))
            while await consumer.position(partition) <= max(offsets):
                for record in await consumer.poll(POLL_MS):
                    if record.key == key and record.offset in offsets:
                        matching[partition, record.offset] = None
    return [each for each in found if (each.partition, each.offset) in matching]
