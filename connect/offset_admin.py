"""Offsets of stopped connectors, as users read, set and remove them (KIP-875).

Answers and refusals have the words of Kafka's Connect. Never here: whether a connector is stopped.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..client.admin.admin import Admin
from ..client.errors import ClientError
from ..protocol.errors import ApiError
from ..protocol.types import TopicPartition
from ..runtime.runtime import Runtime
from .api import ConnectError, Connector
from .clients import Clients, sink_group
from .herding import BadRequest
from .hosts import ThreadHost
from .offset_store import OffsetStore, TopicOffsets, is_gone
from .offsets import Pair, Reader, as_mapping

ALTERED: Final = "The offsets for this connector have been altered successfully"
RESET: Final = "The offsets for this connector have been reset successfully"
_FRAMEWORK: Final = (
    "The Connect framework-managed offsets for this connector have been {} successfully. However,"
    " if this connector manages offsets externally, they will need to be manually {} in the system"
    " that the connector uses."
)
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


class _Asked:
    """Asks the connector's class for its judgement, in a thread: it may block."""

    def __init__(self, runtime: Runtime, connector: type[Connector], props: Mapping[str, str]):
        self._runtime = runtime
        self._connector = connector
        self._props = props

    async def judge(self, offsets: Mapping[Any, Mapping[str, Any] | None], done: str) -> str:
        """Let the connector look at new offsets; return the message. Raise BadRequest."""
        name = f"offsets-{self._props['name']}"
        host = ThreadHost(self._runtime, name, lambda *_: _Judge(self._connector), _nothing)
        try:
            looked = await host.call("alter_offsets", self._props, offsets)
        except ConnectError as error:
            raise BadRequest(str(error)) from error
        finally:
            host.leave()
        if looked:
            return ALTERED if done == "altered" else RESET
        return _FRAMEWORK.format(done, done)


class _Judge:
    def __init__(self, connector: type[Connector]) -> None:
        self._connector = connector()

    async def alter_offsets(self, props: Mapping[str, str], offsets: Any) -> bool:
        return self._connector.alter_offsets(props, offsets)


class SourceOffsets:
    """The offsets of a source connector."""

    def __init__(
        self,
        runtime: Runtime,
        connector: type[Connector],
        props: Mapping[str, str],
        stores: tuple[OffsetStore, TopicOffsets | None],
    ) -> None:
        """`stores` are the worker's, and the connector's own topic if it has one."""
        self._asked = _Asked(runtime, connector, props)
        self._name = props["name"]
        self._store, self._own = stores

    async def listed(self) -> list[dict[str, Any]]:
        """Return [{partition, offset}]."""
        try:
            return [
                {"partition": dict(partition), "offset": dict(offset)}
                for partition, offset in await self._read()
            ]
        finally:
            await self._close()

    async def alter(self, offsets: Sequence[Mapping[str, Any]]) -> str:
        """Set the offsets."""
        pairs: list[Pair] = []
        for one in offsets:
            partition, offset = one.get("partition"), one.get("offset")
            if not isinstance(partition, dict) or not isinstance(offset, dict | None):
                raise BadRequest(
                    "Each offset must have a partition, an object, and an offset, an object or null"
                )
            pairs.append((partition, offset))
        return await self._write(pairs, "altered")

    async def reset(self) -> str:
        """Remove all offsets."""
        try:
            found = await self._read()
        except BaseException:
            await self._close()
            raise
        return await self._write([(partition, None) for partition, _ in found], "reset")

    async def _read(self) -> list[Any]:
        await self._store.refresh()
        maps = [self._store.map]
        if self._own is not None:
            if not self._own.is_started:
                await self._own.start()
            maps.insert(0, self._own.map)
        return Reader(self._name, *maps).listed()

    async def _write(self, pairs: Sequence[Pair], done: str) -> str:
        try:
            message = await self._asked.judge(as_mapping(pairs), done)
            await self._read()
            if self._own is not None:
                await self._own.write(self._name, pairs)
            await self._store.write(self._name, pairs)
            return message
        finally:
            await self._close()

    async def _close(self) -> None:
        if self._own is not None:
            await self._own.close()


class SinkOffsets:
    """The offsets of a sink connector: those of its consumer group."""

    def __init__(
        self,
        runtime: Runtime,
        connector: type[Connector],
        props: Mapping[str, str],
        clients: Clients,
    ) -> None:
        self._asked = _Asked(runtime, connector, props)
        self._runtime = runtime
        self._clients = clients
        self._name = props["name"]
        self._group = sink_group(self._name, props)

    def _admin(self) -> Admin:
        return Admin(runtime=self._runtime, **self._clients.admin())

    async def listed(self) -> list[dict[str, Any]]:
        """Return [{partition, offset}]."""
        async with self._admin() as admin:
            found = await admin.list_group_offsets(self._group)
        return [
            {
                "partition": {TOPIC: partition.topic, PARTITION: partition.partition},
                "offset": {OFFSET: position.offset},
            }
            for partition, position in sorted(found.items())
        ]

    async def alter(self, offsets: Sequence[Mapping[str, Any]]) -> str:
        """Set the offsets."""
        wanted = dict(map(_parsed, offsets))
        given = {key: None if at is None else {OFFSET: at} for key, at in wanted.items()}
        message = await self._asked.judge(given, "altered")
        changed = {key: offset for key, offset in wanted.items() if offset is not None}
        removed = [key for key, offset in wanted.items() if offset is None]
        try:
            async with self._admin() as admin:
                if changed:
                    await admin.alter_group_offsets(self._group, changed)
                if removed:
                    await admin.delete_group_offsets(self._group, removed)
        except (ClientError, ApiError) as error:
            raise self._refused("alter", error) from error
        return message

    async def reset(self) -> str:
        """Delete the group."""
        async with self._admin() as admin:
            found = await admin.list_group_offsets(self._group)
            message = await self._asked.judge(dict.fromkeys(found), "reset")
            try:
                await admin.delete_groups([self._group])
            except (ClientError, ApiError) as error:
                if not is_gone(error):
                    raise self._refused("reset", error) from error
        return message

    def _refused(self, what: str, error: Exception) -> BadRequest:
        return BadRequest(
            f"Failed to {what} consumer group offsets for connector {self._name} either because its"
            " tasks haven't stopped completely yet or the connector was resumed before the request"
            f" to {what} its offsets could be successfully completed. If the connector is in a"
            " stopped state, this operation can be safely retried. If it doesn't eventually"
            " succeed, the Connect cluster may need to be restarted to get rid of the zombie sink"
            f" tasks. ({error})"
        )


def _parsed(one: Mapping[str, Any]) -> tuple[TopicPartition, int | None]:
    partition, offset = one.get("partition"), one.get("offset")
    try:
        assert isinstance(partition, Mapping)
        found = TopicPartition(str(partition[TOPIC]), int(partition[PARTITION]))
        at = None if offset is None else int(offset[OFFSET])
    except (AssertionError, KeyError, TypeError, ValueError):
        raise BadRequest(
            f'The partition of a sink must be an object with "{TOPIC}" and "{PARTITION}", its'
            f' offset null or an object with "{OFFSET}"'
        ) from None
    if found.partition < 0 or (at is not None and at < 0):
        raise BadRequest(f"{PARTITION} and {OFFSET} must not be negative")
    return found, at


async def _nothing(*_: Any) -> None:
    """Answer nothing."""
