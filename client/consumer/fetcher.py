"""Fetches ahead of the user: one loop per broker that leads assigned partitions.

Drives `Positions` and `FetchSession`; fetched data stays in `Buffer` until a poll takes it. A loop
has at most one fetch under way, and sends the next while the user processes earlier records.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ErrorCode, ProtocolError, RemoteProtocolError
from ...protocol.messages.fetch import FetchRequest, FetchResponse, PartitionData
from ...protocol.types import ZERO_UUID, TopicPartition
from ...runtime.runtime import Runtime
from ..cluster import Broker, Changes, ClusterView
from ..config import ConsumerConfig
from ..errors import ClientError, CorruptRecord
from ..metadata import Metadata, suspect
from ..net.backoff import Backoff
from ..net.connection import KafkaConnection
from ..net.pool import FETCH
from ..partitions import name_of
from ..records import AbortedTransaction
from .buffer import Buffer
from .chunk import Chunk
from .consumer_metrics import ConsumerMetrics
from .fetch_session import Asked, FetchSession, Want
from .lookups import Lookups
from .positions import PartitionState, Positions

log = logging.getLogger(__name__)

SESSION_VERSION: Final = 7
TOPIC_ID_VERSION: Final = 13
AGAIN_MS: Final = 500
"""The ms between metadata requests to other brokers while a broker does not answer."""
CHUNKS_AHEAD: Final = 2
"""The most chunks of one partition in the buffer: one that polls read from, and the next."""


class Fetcher:
    """The fetch loops of one consumer, the buffer they fill, and the lookups they depend on."""

    def __init__(
        self,
        runtime: Runtime,
        config: ConsumerConfig,
        metadata: Metadata,
        positions: Positions,
        metrics: ConsumerMetrics,
    ) -> None:
        self.buffer = Buffer(asyncio.Event(), self._wake_loops)
        self.lookups = Lookups(runtime, config, metadata, positions, self.buffer)
        self.lookups.on_found = self._turn
        self._runtime = runtime
        self._config = config
        self._reads_committed = config.reads_committed
        self._metadata = metadata
        self._positions = positions
        self._metrics = metrics
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._loops: dict[int, asyncio.Task[None]] = {}
        self._wakes: dict[int, asyncio.Event] = {}
        self._fetching: dict[int, KafkaConnection] = {}
        """The connections that await the answer to a fetch, by broker id."""
        self._is_closed = False
        self._turned: dict[int, None] = {}
        """Brokers whose fetch this client aborted, so that the next one names more partitions."""
        metadata.listen(self._on_metadata)

    def start(self) -> None:
        """Start the lookups; fetch loops start when partitions are assigned."""
        self.lookups.start()

    async def close(self) -> None:
        """Stop all fetch loops."""
        self._is_closed = True
        await self.lookups.close()
        for task in self._loops.values():
            task.cancel()
        if self._loops:
            await asyncio.wait(list(self._loops.values()))

    def on_positions_changed(self) -> None:
        """Restart fetches and lookups, because partitions were assigned, moved or resumed."""
        for partition in self._positions.states:
            self._metadata.watch(partition.topic)
        self._take_over_leaders()
        self.buffer.drop_void()
        self._turn()

    def _on_metadata(self, changes: Changes) -> None:
        if self._take_over_leaders():
            self._turn()

    def _take_over_leaders(self) -> bool:
        changed = False
        for partition in self._positions.states:
            leader = self._metadata.view.leader_of(*partition)
            if leader is None:
                continue
            topic_id = self._metadata.view.topic_id(partition.topic)
            error = self._positions.on_topic_id(partition, topic_id)
            if error is not None:
                self.buffer.report(error, self._positions.states[partition])
            changed |= self._positions.on_leader(partition, leader.leader_id, leader.leader_epoch)
        return changed

    def _turn(self) -> None:
        """Fetch the partitions that have become ready; abort fetches that do not include them."""
        self._start_loops()
        self.lookups.wake()
        # A broker answers a connection in order, so a fetch that waits for new records would delay
        # partitions that have some. A new connection costs less than fetch_max_wait_ms.
        for node_id, connection in self._fetching.items():
            if self._wants(node_id)[0] and connection.is_open:
                self._turned[node_id] = None
                connection.abort("the consumer turned to other offsets")

    def _wake_loops(self) -> None:
        for event in self._wakes.values():
            event.set()

    def _start_loops(self) -> None:
        for state in self._positions.states.values():
            node_id = self._node_for(state)
            if node_id >= 0 and node_id not in self._loops:
                self._wakes[node_id] = asyncio.Event()
                task = self._runtime.spawn(
                    self._fetch_forever(node_id), f"fetch from broker {node_id}"
                )
                task.add_done_callback(functools.partial(self._on_loop_end, node_id))
                self._loops[node_id] = task
        self._wake_loops()

    def _on_loop_end(self, node_id: int, task: "asyncio.Task[None]") -> None:
        """Have the next poll raise the error that ended a loop, unless the loop was cancelled."""
        if task.cancelled() or self._is_closed or (error := task.exception()) is None:
            return
        del self._loops[node_id]
        for state in self._positions.states.values():
            if self._node_for(state) == node_id:
                state.is_fetching = False
                self._back_off(state)
        self.buffer.report(ClientError(f"an answer of broker {node_id} cannot be used: {error!r}"))
        self._start_loops()

    def _node_for(self, state: PartitionState) -> int:
        nearer = state.nearer
        if nearer.is_over(self._runtime.monotonic_ms()) and nearer.lose():
            self._wake_loops()
        known = self._metadata.view.brokers
        return nearer.replica if nearer.replica in known else state.leader_id

    # -- fetching

    async def _fetch_forever(self, node_id: int) -> None:
        session = FetchSession()
        wake = self._wakes[node_id]
        while True:
            wake.clear()
            wants, wait_ms = self._wants(node_id)
            if wants:
                await self._fetch_once(node_id, session, wants)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if wait_ms is None else wait_ms / 1000):
                    await wake.wait()

    async def _fetch_once(
        self, node_id: int, session: FetchSession, wants: dict[TopicPartition, Want]
    ) -> None:
        states = {partition: self._positions.states[partition] for partition in wants}
        tokens: dict[TopicPartition, int] = {}
        for partition, state in states.items():
            state.fetch_count += 1
            state.is_fetching = True
            tokens[partition] = state.fetch_count
        self._turned.pop(node_id, None)
        response: FetchResponse | None = None
        try:
            opening = asyncio.ensure_future(self._metadata.connection_to(node_id, FETCH))
            patience_ms = self._config.unanswered_request_ms
            connection: KafkaConnection = await _impatiently(
                self._metadata, opening, node_id, patience_ms
            )
            if all(state.fetch_count == tokens[tp] for tp, state in states.items()):
                self._fetching[node_id] = connection
                response = await self._fetch(connection, node_id, session, wants)
            else:
                self._turned[node_id] = None  # a partition jumped meanwhile: compute wants anew
        except (ClientError, ProtocolError) as error:
            log.debug("fetch from broker %d failed: %s", node_id, error)
            session.on_lost()
            if node_id not in self._turned:
                self._metadata.refresh_soon(avoid=node_id)
        finally:
            self._fetching.pop(node_id, None)
        # An answer says nothing about partitions that jumped or moved to another leader meanwhile.
        current = {tp: state for tp, state in states.items() if state.fetch_count == tokens[tp]}
        for state in current.values():
            state.is_fetching = False
            if response is None and node_id not in self._turned:
                self._back_off(state)
        if response is None:
            return
        if session.on_answer(ErrorCode(response.error_code), response.session_id):
            self._on_response(response, current)
        else:
            log.debug("fetch session with broker %d starts over", node_id)

    def _wants(self, node_id: int) -> tuple[dict[TopicPartition, Want], int | None]:
        """Return what to fetch from this broker now, and ms to the next backoff's end, if any."""
        wants: dict[TopicPartition, Want] = {}
        if self.buffer.size >= self._config.fetch_max_bytes:
            return wants, None
        now_ms = self._runtime.monotonic_ms()
        soonest: int | None = None
        for partition, state in self._positions.states.items():
            if (
                not state.is_ready
                or state.buffered_count >= CHUNKS_AHEAD
                or self._node_for(state) != node_id
            ):
                continue
            if state.not_before_ms > now_ms:
                wait_ms = state.not_before_ms - now_ms
                soonest = wait_ms if soonest is None else min(soonest, wait_ms)
                continue
            wants[partition] = Want(
                state.topic_id,  # not the view's: a topic made anew has other offsets
                state.fetch_offset,
                state.leader_epoch,
                self._config.max_partition_fetch_bytes,
            )
        return wants, soonest

    async def _fetch(
        self,
        connection: KafkaConnection,
        node_id: int,
        session: FetchSession,
        wants: dict[TopicPartition, Want],
    ) -> FetchResponse:
        version = connection.versions.of(ApiKey.FETCH)
        if any(want.topic_id == ZERO_UUID for want in wants.values()):
            version = min(version, TOPIC_ID_VERSION - 1)
        asked = session.ask(wants, may_increment=version >= SESSION_VERSION)
        config = self._config
        begun_ms = self._runtime.monotonic_ms()
        named = map(self._positions.states.get, wants)
        request = _request(config, asked, _rack(config, named, begun_ms))
        timeout_ms = config.request_timeout_ms + config.fetch_max_wait_ms
        future = connection.send(request, version=version, timeout_ms=timeout_ms)
        patience_ms = config.fetch_max_wait_ms + config.unanswered_request_ms
        response: FetchResponse = await _impatiently(self._metadata, future, node_id, patience_ms)
        now_ms = self._runtime.monotonic_ms()
        self._metrics.fetches.record(now_ms - begun_ms, now_ms)
        self._metrics.throttled.record(response.throttle_time_ms, now_ms)
        return response

    def _back_off(self, state: PartitionState) -> None:
        state.failure_count += 1
        wait_ms = self._backoff.after(state.failure_count, self._runtime.rng)
        state.not_before_ms = self._runtime.monotonic_ms() + wait_ms
        if state.nearer.lose():
            self._start_loops()

    # -- answers

    def _on_response(
        self, response: FetchResponse, states: dict[TopicPartition, PartitionState]
    ) -> None:
        for partition, data in _partitions_of(response, self._metadata.view, states):
            if (state := states.get(partition)) is not None:
                self._on_partition(state, data)

    def _on_partition(self, state: PartitionState, data: PartitionData) -> None:
        code = ErrorCode(data.error_code)
        if code is not ErrorCode.NONE:
            self._on_refused(state, code, data)
            return
        state.high_watermark = data.high_watermark
        state.last_stable_offset = data.last_stable_offset
        state.log_start_offset = data.log_start_offset
        if data.preferred_read_replica >= 0:
            until_ms = self._runtime.monotonic_ms() + self._config.metadata_max_age_ms
            state.nearer.name(data.preferred_read_replica, until_ms)
            if state.nearer.replica not in self._metadata.view.brokers:
                self._metadata.refresh_soon()  # until it is known, the leader is asked again
                self._back_off(state)
            self._start_loops()
        else:
            state.failure_count = 0
        if data.records:
            self._take_in(state, data)

    def _take_in(self, state: PartitionState, data: PartitionData) -> None:
        try:
            chunk = _chunk_of(state, data, committed=self._reads_committed)
        except RemoteProtocolError as error:
            # The batches behind the damage cannot be found; the next answer may be intact.
            self._back_off(state)
            self.buffer.report(
                CorruptRecord(state.partition, state.fetch_offset, str(error)), state
            )
            return
        if not chunk.is_empty:
            self._metrics.fetched.record(chunk.size, self._runtime.monotonic_ms())
            state.fetch_offset, state.fetch_epoch = chunk.next_position, chunk.last_epoch
            self.buffer.add(chunk)

    def _on_refused(self, state: PartitionState, code: ErrorCode, data: PartitionData) -> None:
        state.high_watermark = -1
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            if state.nearer.lose():
                # The leader decides whether an offset is in range (KIP-392): fetch it from there.
                until_ms = self._runtime.monotonic_ms() + self._config.metadata_max_age_ms
                state.nearer.refuse(state.fetch_offset, until_ms)
                self._start_loops()
                return
            log.warning("%s: the log does not hold offset %d", state.partition, state.fetch_offset)
            error = self._positions.on_out_of_range(state)
            if error is not None:
                self.buffer.report(error, state)
            self.lookups.wake()
        elif code.retriable:
            self._back_off(state)
            hint = data.current_leader
            view = self._metadata.view
            if hint is not None and view.on_leader(
                state.partition, hint.leader_id, hint.leader_epoch
            ):
                self._positions.on_leader(state.partition, hint.leader_id, hint.leader_epoch)
                self._turn()
            elif code.stale_metadata:
                self._metadata.refresh_soon()
        else:
            self._back_off(state)
            self.buffer.report(ApiError(code, f"{name_of(state.partition)}: {code.doc}"), state)


def _request(config: ConsumerConfig, asked: Asked, rack: str) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=config.fetch_max_wait_ms,
        min_bytes=config.fetch_min_bytes,
        max_bytes=config.fetch_max_bytes,
        isolation_level=config.isolation_number,
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=asked.topics,
        forgotten_topics_data=asked.forgotten,
        rack_id=rack,
    )


def _rack(config: ConsumerConfig, states: Iterable[PartitionState | None], now_ms: int) -> str:
    """Return client_rack, or "" if a replica in that rack has recently refused a wanted offset."""
    for state in states if config.client_rack else ():
        if state is not None and state.nearer.has_refused(state.fetch_offset, now_ms):
            return ""
    return config.client_rack


def _partitions_of(
    response: FetchResponse, view: ClusterView, states: Mapping[TopicPartition, PartitionState]
) -> Iterator[tuple[TopicPartition, PartitionData]]:
    """Store the broker addresses in the answer (KIP-951), then yield the answer's partitions.

    Topics are named as they were asked for in `states`; metadata may have forgotten one meanwhile.
    """
    names = {state.topic_id: partition.topic for partition, state in states.items()}
    if response.node_endpoints:
        view.on_brokers(Broker(n.node_id, n.host, n.port, n.rack) for n in response.node_endpoints)
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for data in topic.partitions:
            yield TopicPartition(name, data.partition_index), data


def _chunk_of(state: PartitionState, data: PartitionData, *, committed: bool) -> Chunk:
    """Cut the data into whole batches.

    Raise RemoteProtocolError if a batch's size is impossible.
    """
    aborted = None
    if committed:
        aborted = [
            AbortedTransaction(one.producer_id, one.first_offset)
            for one in data.aborted_transactions or ()
        ]
    return Chunk(state, memoryview(data.records or b""), aborted)


async def _impatiently(
    metadata: Metadata, future: "asyncio.Future[Any]", node_id: int, patience_ms: int
) -> Any:
    """Wait for the answer; each time `patience_ms` passes, suspect the broker."""
    try:
        while not future.done():
            await asyncio.wait([future], timeout=patience_ms / 1000)
            if not future.done():
                suspect(metadata, node_id, FETCH)
                patience_ms = min(patience_ms, AGAIN_MS)
        return future.result()
    finally:
        future.cancel()
