"""A replica fetcher: one task, with one connection to one leader, that fetches some partitions.

After the first fetch of a session a request names only the partitions whose position changed. A
fetch offset acknowledges all records before it, so a request is built only after the appends from
earlier answers have returned. While the leader holds a fetch until there is data, one more request
may be sent to report a change (`interrupt`). `replica.follower` decides what an answer means for a
partition.
"""

import asyncio
import logging
from collections.abc import Iterator

from ...client.net.backoff import Backoff
from ...client.net.connection import ConnectionOptions, KafkaConnection
from ...client.net.errors import ClientError
from ...client.net.watched import SILENCE_MS, WatchedConnection
from ...protocol.api import ApiKey
from ...protocol.codec import decode
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.messages import fetch as wire
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ...runtime.waiting import happens_within
from ..config import BrokerConfig
from ..control.controller_channel import ControllerChannel
from ..partition.partition import Partition
from ..peers import Reach
from ..replica.follower import Fetched, FetchPosition, Phase
from . import following
from .leader_offsets import leader_offsets
from .replica_session import ReplicaSession

log = logging.getLogger(__name__)

FETCH_VERSION_MAX = 18
RECONNECT = Backoff(first_ms=20, most_ms=1000, steady_count=1)
SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class SessionLost(Exception):
    """Raised if the leader has forgotten our session, so that the next fetch must be full."""


class ReplicaFetcher:
    """Fetches some of the partitions that one broker leads and this broker follows."""

    def __init__(
        self,
        runtime: Runtime,
        config: BrokerConfig,
        channel: ControllerChannel,
        leader_id: int,
        reach: Reach,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._channel = channel
        self.leader_id = leader_id
        self._reach = reach
        self._partitions: dict[tuple[bytes, int], Partition] = {}
        self._changed: dict[tuple[bytes, int], None] = {}
        """The partitions whose next position may differ from the one that the leader knows."""
        self._outside: dict[Partition, None] = {}
        """The partitions whose fetch offset was outside the leader's log, so that the log's bounds
        must be asked for."""
        self._session = ReplicaSession()
        self._connection: KafkaConnection | None = None
        self._asked: asyncio.Future[memoryview] | None = None
        """The request in flight; the leader may keep it until there is data."""
        self._ahead: asyncio.Future[memoryview] | None = None
        """The request that was sent after `_asked` and before its answer, if there is one."""
        self._news = asyncio.Event()
        self._task = OwnedTask(runtime, f"fetch from broker {leader_id}")

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def start(self) -> None:
        """Begin to fetch."""
        self._task.start(self._run)

    async def stop(self) -> None:
        """End the task and the connection."""
        await self._task.stop()
        self._disconnect("the fetcher stopped")

    def add(self, partition: Partition) -> None:
        """Fetch this partition too, or continue to fetch it, in its new leader epoch."""
        key = partition.key
        self._partitions[key] = partition
        self._changed[key] = None
        self._news.set()

    def remove(self, partition: Partition) -> None:
        """Stop fetching the partition."""
        key = partition.key
        if self._partitions.pop(key, None) is not None:
            self._changed[key] = None

    def retry_now(self) -> None:
        """Connect again without waiting for the pause to end: the leader has registered again."""
        self._news.set()

    def tell(self, partition: Partition) -> None:
        """Fetch the partition soon, to report its flushed offset or log start to the leader."""
        self._changed[partition.key] = None
        self.interrupt()

    def interrupt(self) -> None:
        """Send the next request now, even if the leader holds a fetch until there is data.

        A leader answers a held fetch as soon as the next one arrives. Without a held fetch nothing
        is done, because the next request is made soon anyway.
        """
        asked, connection = self._asked, self._connection
        if asked is None or asked.done() or self._ahead is not None or self._session.is_new:
            return
        if connection is None or not connection.is_open:
            return
        request = self._next_request(self._runtime.monotonic_ms())
        if request is not None:
            self._ahead = self._send(connection, request)
            # It may fail before anybody waits for it.
            self._ahead.add_done_callback(lambda done: done.cancelled() or done.exception())

    # The task.

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                await self._fetch_while_connected()
            except SessionLost:
                self._session, self._asked, self._ahead = ReplicaSession(), None, None
                continue
            except (ClientError, RemoteProtocolError) as error:
                was_interrupted = self._connection is None
                self._disconnect(str(error))
                if was_interrupted:
                    continue
                log.info("fetch from broker %d: %s", self.leader_id, error)
            failures += 1
            pause_ms = RECONNECT.after(failures, self._runtime.rng)
            if self._session.sent:
                failures = 0  # The connection had worked, so begin with a short pause again.
            self._session = ReplicaSession()
            self._news.clear()
            await happens_within(self._news, pause_ms)

    async def _fetch_while_connected(self) -> None:
        if self._connection is None:
            endpoint = self._reach.endpoint_of(self.leader_id)
            if endpoint is None:
                return
            options = ConnectionOptions(
                client_id=f"broker-{self._config.node_id}-fetcher",
                connect_timeout_ms=min(self._config.replica_socket_timeout_ms, SILENCE_MS),
                request_timeout_ms=self._config.replica_fetch_wait_max_ms
                + self._config.replica_socket_timeout_ms,
                security=self._reach.security,
            )
            self._session = ReplicaSession()
            watched = await WatchedConnection.open(
                self._runtime, endpoint.host, endpoint.port, options
            )
            watched.patience_ms = self._config.replica_fetch_wait_max_ms + SILENCE_MS
            self._connection = watched
        connection = self._connection
        while True:
            asked, self._ahead = self._ahead, None
            if asked is None:
                now_ms = self._runtime.monotonic_ms()
                request = self._next_request(now_ms)
                if request is None:
                    await self._wait_for_news(now_ms)
                    continue
                asked = self._send(connection, request)
            self._asked = asked
            body = await asked
            self._asked = None
            self._on_answer(decode(wire.FetchResponse, _version(connection), body))
            if self._outside and self._ahead is None:
                await self._ask_offsets(connection)

    def _send(
        self, connection: KafkaConnection, request: wire.FetchRequest
    ) -> "asyncio.Future[memoryview]":
        self._session.on_sent()
        return connection.send_raw(request, version=_version(connection))

    async def _wait_for_news(self, now_ms: int) -> None:
        """Wait until a partition is added or a delay is over; there is nothing to fetch before."""
        self._news.clear()
        deadlines = [due_ms for p in self if (due_ms := _due_ms(p, now_ms)) is not None]
        within_ms = max(1, min(deadlines) - now_ms) if deadlines else None
        await happens_within(self._news, within_ms)

    def _disconnect(self, why: str) -> None:
        connection, self._connection = self._connection, None
        self._asked = self._ahead = None
        if connection is not None:
            connection.abort(why)
        for partition in self:
            if partition.follower is not None:
                partition.follower.on_connection_lost()

    # Requests.

    def _next_request(self, now_ms: int) -> wire.FetchRequest | None:
        """Build the next fetch with the positions that changed; None if nothing can be fetched."""
        session = self._session
        if session.is_full:
            session.sent.clear()
            keys = list(self._partitions)
        else:
            keys = list(self._changed)
        self._changed.clear()
        topics: dict[bytes, list[wire.FetchPartition]] = {}
        forgotten: dict[bytes, list[int]] = {}
        # The first fetch of a session must be answered at once, as none can be sent behind it.
        wait_ms = 0 if session.is_new else self._config.replica_fetch_wait_max_ms
        for key in keys:
            partition = self._partitions.get(key)
            position = self._position(partition, now_ms)
            if position is None or partition is None:
                if session.forget(key):
                    forgotten.setdefault(key[0], []).append(key[1])
                due_ms = _due_ms(partition, now_ms)
                if due_ms is not None:
                    # Delayed: look again with the next request, which must not take longer.
                    self._changed[key] = None
                    wait_ms = min(wait_ms, max(0, due_ms - now_ms))
            elif session.sent.get(key) != position:
                session.name(key, position)
                topics.setdefault(key[0], []).append(self._wanted(partition, position))
        if not session.sent:
            if session.id:
                self._session = ReplicaSession()
            return None
        return self._request(topics, forgotten, wait_ms)

    @staticmethod
    def _position(partition: Partition | None, now_ms: int) -> FetchPosition | None:
        if partition is None or partition.follower is None:
            return None
        throttle = following.throttle_of(partition)
        if throttle is not None and throttle.is_exceeded(now_ms):
            return None
        position = partition.follower.next_fetch(partition.log, now_ms)
        start = partition.log.log_start_offset
        if position is not None and start:
            position = position._replace(log_start_offset=start)
        if position is not None and partition.role.metadata.group_flush:
            return position._replace(flushed_offset=partition.log.flushed_offset)
        return position

    def _wanted(self, partition: Partition, position: FetchPosition) -> wire.FetchPartition:
        return wire.FetchPartition(
            partition=partition.index,
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_fetched_epoch,
            log_start_offset=position.log_start_offset,
            flushed_offset=position.flushed_offset,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
        )

    def _request(
        self,
        topics: dict[bytes, list[wire.FetchPartition]],
        forgotten: dict[bytes, list[int]],
        wait_ms: int,
    ) -> wire.FetchRequest:
        config, session = self._config, self._session
        return wire.FetchRequest(
            cluster_id=self._channel.cluster_id,
            replica_state=wire.ReplicaState(
                replica_id=config.node_id,
                replica_epoch=self._channel.broker_epoch,
                incarnation_id=self._channel.incarnation_id,
            ),
            max_wait_ms=wait_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=[wire.FetchTopic(topic_id=each, partitions=topics[each]) for each in topics],
            forgotten_topics_data=[
                wire.ForgottenTopic(topic_id=each, partitions=forgotten[each]) for each in forgotten
            ],
        )

    # Answers.

    def _on_answer(self, answer: wire.FetchResponse) -> None:
        """Process every partition of the answer before anything else is sent.

        Raise SessionLost if the leader has forgotten the session, or RemoteProtocolError for
        another error of the whole answer.
        """
        if answer.error_code:
            error = ErrorCode(answer.error_code)
            if error in SESSION_ERRORS:
                raise SessionLost
            raise RemoteProtocolError(f"broker {self.leader_id} answered {error.name}")
        now_ms = self._runtime.monotonic_ms()
        session = self._session
        for topic in answer.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                partition, asked = self._partitions.get(key), session.asked(key)
                if partition is not None and asked is not None:
                    self._changed[partition.key] = None
                    following.on_fetched(partition, asked, data, now_ms, self._ask_leader)
        session.on_answered(answer.session_id)

    def _ask_leader(self, partition: Partition) -> None:
        self._outside[partition] = None

    async def _ask_offsets(self, connection: KafkaConnection) -> None:
        """Ask for the bounds of the leader's log, for partitions whose fetch was outside it."""
        outside, self._outside = self._outside, {}
        asking = [each for each in outside if each.key in self._partitions and _is_asking(each)]
        if not asking:
            return
        epochs = [partition.leader_epoch for partition in asking]
        answers = await leader_offsets(connection, self._config.node_id, asking)
        now_ms = self._runtime.monotonic_ms()
        for partition, epoch, answer in zip(asking, epochs, answers, strict=True):
            follower = partition.follower
            if follower is None or partition.leader_epoch != epoch:
                continue
            if answer is None:
                follower.on_leader_offsets_failed(now_ms)
                continue
            effects = follower.on_leader_offsets(*answer, partition.log)
            following.carry_out(partition, effects, Fetched(), b"", self._ask_leader)


def _version(connection: KafkaConnection) -> int:
    return connection.versions.of(ApiKey.FETCH, at_most=FETCH_VERSION_MAX)


def _is_asking(partition: Partition) -> bool:
    return partition.follower is not None and partition.follower.phase is Phase.ASKING


def _due_ms(partition: Partition | None, now_ms: int) -> int | None:
    """Return when a delayed or throttled partition may fetch again; None if it need not wait."""
    if partition is None or partition.follower is None:
        return None
    due_ms = partition.follower.next_deadline_ms()
    throttle = following.throttle_of(partition)
    if due_ms is None and throttle is not None and throttle.is_exceeded(now_ms):
        return throttle.free_at_ms(now_ms)
    return due_ms
