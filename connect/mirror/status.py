"""Places of groups at both ends of the flows: `minikafka mirror status`.

It asks the clusters alone, and needs no worker.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...client.admin.admin import Admin
from ...client.cli.common import table
from ...protocol.types import TopicPartition
from .checkpoint import InternalTopic, read_new
from .checkpoints import CheckpointStore
from .keys import CHECKPOINT as KEYS
from .mm2_config import CHECKPOINT, Flow, Mm2Config
from .patterns import NameFilter
from .policy import policy_of
from .topics import described, ends_of


class GroupPlace(NamedTuple):
    """A group in one partition, at both ends of a flow; None is not known, or not there."""

    flow: str
    group: str
    topic: str
    """The topic at the source."""
    partition: int
    source_offset: int
    source_end: int | None
    source_lag: int | None
    target_offset: int | None
    """The offset of the newest checkpoint."""
    target_end: int | None
    target_lag: int | None


async def places_of(config: Mm2Config, flow: Flow) -> list[GroupPlace]:
    """Return the places of a flow's groups; raise MinikafkaError if a cluster cannot be asked.

    A flow that mirrors no groups has none.
    """
    if CHECKPOINT not in config.connectors(flow):
        return []
    settings = KEYS.parse(config.connector_props(flow, CHECKPOINT))
    policy = policy_of(settings)
    clients = [config.client_props(alias) for alias in flow]
    async with Admin.from_config(clients[0]) as source, Admin.from_config(clients[1]) as target:
        store = CheckpointStore()
        topic = policy.checkpoints(flow.source)
        if await described(target, [topic]):
            written = InternalTopic(clients[1], topic)
            try:
                await written.start()
                await read_new(written, store.read)
            finally:
                await written.close()
        committed = await _committed(source, settings)
        remote = {
            at: TopicPartition(policy.remote(flow.source, at[0]), at[1]) for _, at in committed
        }
        source_ends, target_ends = (
            await ends_of(source, list(remote)),
            await ends_of(target, list(remote.values())),
        )
    found = []
    for (group, at), offset in sorted(committed.items()):
        known = store.of(group).get(remote[at])
        there, end = known and known.downstream, target_ends.get(remote[at])
        source_end = source_ends.get(at)
        lags = _lag(source_end, offset), _lag(end, there)
        found.append(
            GroupPlace(str(flow), group, *at, offset, source_end, lags[0], there, end, lags[1])
        )
    return found


async def _committed(
    admin: Admin, settings: dict[str, Any]
) -> dict[tuple[str, TopicPartition], int]:
    groups, topics = NameFilter(settings, "groups"), NameFilter(settings, "topics")
    return {
        (each.group_id, at): place.offset
        for each in await admin.list_groups()
        if groups.takes(each.group_id)
        for at, place in (await admin.list_group_offsets(each.group_id)).items()
        if topics.takes(at.topic)
    }


def _lag(end: int | None, at: int | None) -> int | None:
    return None if end is None or at is None else max(end - at, 0)


def lines_of(places: Sequence[GroupPlace]) -> list[str]:
    """Return the lines of a table."""
    headers = ["FLOW", "GROUP", "TOPIC", "PARTITION", "OFFSET", "END", "LAG"]
    headers += ["TRANSLATED", "TARGET-END", "TARGET-LAG"]
    return table(headers, [["-" if each is None else str(each) for each in at] for at in places])
