"""Repairs damaged batches: they are fetched from a peer again and written in their place.

Storage reports damage whenever a reader or the scrub finds it, and never serves damaged batches.
This module asks peers for the batches by fetches of a debugging consumer: the leader first, then
members of the ISR, then other replicas. Records with the same offset and leader epoch are the same
on all replicas. The answer must fit exactly: offsets, length, checksums, epochs. While no peer has
the batches, their readers get KAFKA_STORAGE_ERROR, and peers are asked again.

A task runs only while there is damage.
"""

import asyncio
import logging
from collections.abc import Callable

from ...client.net.connection import ConnectionOptions, KafkaConnection
from ...client.net.errors import ClientError
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from ...protocol.types import TopicPartition
from ...runtime.errors import CorruptLog, LogDirectoryFailed
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ...runtime.waiting import happens_within
from ...storage.damage import Damage
from ...storage.integrity import judge
from ..partition.partition import Partition
from ..partition.requests import DEBUGGING_CONSUMER
from ..peers import Reach

log = logging.getLogger(__name__)

MAX_BYTES = 64 << 20
"""The largest damage that is repaired, in bytes, because all of it must be in memory at once."""
MAX_PLACES = 10_000
RETRY_MIN_MS = 500
RETRY_MAX_MS = 60_000
REQUEST_TIMEOUT_MS = 10_000

Place = tuple[TopicPartition, str, int]
"""A partition, one of its files, and the position at which a reader met damage."""


class Repairs:
    """The known damage of one broker that is not repaired yet, and the task that repairs it."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        find: Callable[[str, int], Partition | ErrorCode],
        reach: Reach,
    ) -> None:
        self._runtime = runtime
        self._broker_id = broker_id
        self._find = find
        self._reach = reach
        self._places: dict[Place, CorruptLog] = {}
        self._told: dict[str, None] = {}
        """The messages already logged about damage that still exists: each is logged once."""
        self._news = asyncio.Event()
        self._task = OwnedTask(runtime, "repair of damaged batches")
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._places)

    def on_damaged(self, name: TopicPartition, error: CorruptLog) -> None:
        """Note the damage that a reader met; known damage is not noted twice."""
        place = (name, error.path, error.position)
        if self._is_closed or place in self._places or len(self._places) >= MAX_PLACES:
            return
        self._places[place] = error
        self._news.set()
        self._task.start(self._run)

    async def close(self) -> None:
        """Stop repairing."""
        self._is_closed = True
        await self._task.stop()

    async def _run(self) -> None:
        pause_ms = RETRY_MIN_MS
        while self._places:
            self._news.clear()
            for place, error in list(self._places.items()):
                if await self._is_settled(place[0], error):
                    del self._places[place]
                    pause_ms = RETRY_MIN_MS
            if not self._places:
                break
            if not await happens_within(self._news, pause_ms):
                pause_ms = min(2 * pause_ms, RETRY_MAX_MS)
        self._told.clear()

    async def _is_settled(self, name: TopicPartition, error: CorruptLog) -> bool:
        """Repair damage; return False if it must be tried again.

        Return True if the damage is repaired, gone, or beyond repair.
        """
        partition = self._find(name.topic, name.partition)
        if isinstance(partition, ErrorCode) or partition.offline_because:
            return True
        try:
            damage = await partition.log.reader.damage_at(error)
            return damage is None or await self._mend(partition, damage)
        except LogDirectoryFailed as failure:
            partition.on_storage_error(failure)
            return True

    async def _mend(self, partition: Partition, damage: Damage) -> bool:
        self._tell_once("%r is damaged: %s", partition, damage)
        if damage.size > MAX_BYTES:
            self._tell_once("%r: too large to be mended: %s", partition, damage)
            return True
        peers = self._peers(partition)
        for peer in peers:
            data = await self._fetch(peer, partition, damage)
            if data is None:
                continue
            try:
                await partition.log.reader.mend(damage, data)
            except CorruptLog as error:
                log.warning("%r: broker %d has other batches: %s", partition, peer, error)
                continue
            first, last = damage.first_offset, damage.next_offset - 1
            log.warning("%r: mended offsets %d to %d from broker %d", partition, first, last, peer)
            return True
        self._tell_once("%r: none of brokers %s has %s", partition, peers, damage)
        return False

    def _tell_once(self, text: str, *values: object) -> None:
        said = text % values
        if said not in self._told:
            self._told[said] = None
            log.error("%s", said)

    def _peers(self, partition: Partition) -> list[int]:
        metadata = partition.metadata
        every = (metadata.leader, *metadata.isr, *metadata.replicas)
        return [each for each in dict.fromkeys(every) if each >= 0 and each != self._broker_id]

    async def _fetch(self, peer: int, partition: Partition, damage: Damage) -> bytes | None:
        """Fetch the peer's batches in the damaged range; None if it cannot give them now."""
        endpoint = self._reach.endpoint_of(peer)
        if endpoint is None:
            return None
        options = ConnectionOptions(
            client_id=f"broker-{self._broker_id}-repair",
            connect_timeout_ms=REQUEST_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            security=self._reach.security,
        )
        try:
            host, port = endpoint.host, endpoint.port
            connection = await KafkaConnection.open(self._runtime, host, port, options)
            try:
                return await _read(connection, partition, damage)
            finally:
                connection.abort("the repair is over")
        except (ClientError, RemoteProtocolError) as error:
            log.info("%r: repair from broker %d: %s", partition, peer, error)
            return None


async def _read(connection: KafkaConnection, partition: Partition, damage: Damage) -> bytes | None:
    data, offset = bytearray(), damage.first_offset
    while offset < damage.next_offset:
        request = _request(partition, offset, damage.size - len(data))
        answer: FetchResponse = await connection.request(request)
        found = [each for topic in answer.responses for each in topic.partitions]
        if answer.error_code or len(found) != 1 or found[0].error_code or not found[0].records:
            return None
        records = found[0].records
        verdict = judge(records, offset, partition.log.reader.rules, is_exact=True)
        if not verdict.size or len(data) + verdict.size > damage.size:
            return None
        data += memoryview(records)[: verdict.size]
        offset = verdict.next_offset
    return bytes(data)


def _request(partition: Partition, offset: int, max_bytes: int) -> FetchRequest:
    wanted = FetchPartition(
        partition=partition.index,
        current_leader_epoch=partition.leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=DEBUGGING_CONSUMER),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[
            FetchTopic(topic=partition.topic, topic_id=partition.topic_id, partitions=[wanted])
        ],
    )
