"""A broker's edge without a network or a disk: fake transport, fake partitions, fake controller."""

import asyncio
import itertools
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

from minikafka.broker.api.table import make_apis
from minikafka.broker.assembly import Ground, Surroundings, make_edge, make_peers, make_sessions
from minikafka.broker.config import BrokerConfig, inter_broker_listener
from minikafka.broker.control.clock_ahead import ClockAhead
from minikafka.broker.control.controller_channel import ActiveController
from minikafka.broker.deadlines import Deadlines
from minikafka.broker.edge import Edge
from minikafka.broker.net.connection import Connection
from minikafka.broker.net.timing import RequestTimes
from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import Appended, FetchAnswer, FetchSpec, OffsetAnswer
from minikafka.broker.partition.verification import Verification
from minikafka.broker.partition.waiters import DataWaiters, Waiter
from minikafka.broker.partitions import Partitions
from minikafka.broker.peers import Reach
from minikafka.broker.replica.lease import LeaderLease
from minikafka.broker.replica.silence import LOOK_MS, SILENT_MS, FollowersHeard
from minikafka.broker.replica.state import NoRole, PartitionMetadata
from minikafka.broker.settings import Settings
from minikafka.broker.topic_defaults import TopicDefaults
from minikafka.broker.whereabouts import Metadata, Whereabouts
from minikafka.protocol.codec import decode_response_frame, frame_request, response_class
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.messages import Endpoint, VersionRange
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.list_offsets import EARLIEST_TIMESTAMP
from minikafka.protocol.records import batch_header
from minikafka.protocol.records.record_checks import Verdict
from minikafka.protocol.records.records import NewRecord, build
from minikafka.runtime.config import from_mapping
from minikafka.runtime.runtime import Runtime, SystemRuntime
from minikafka.security.listener import Listener
from minikafka.security.principal import Origin

TOPIC = "flights"
TOPIC_ID = bytes(range(16))
NODE = 1
EPOCH = 3


class FakePartition(Partition):
    """A log in memory with Partition's methods; it commits at once or when told to."""

    def __init__(self, index: int, *, commits: bool = True) -> None:
        self.topic_id, self.topic, self.index = TOPIC_ID, TOPIC, index
        self.role = NoRole(PartitionMetadata(1, 0, 0, (1,), (1,)), 0)
        self.staging = SimpleNamespace(throttle_ms=0)  # type: ignore[assignment]
        self.commits = commits
        self.batches: list[tuple[int, int, bytes]] = []
        self.staged: list[tuple[Appended, bytes]] = []
        self.traffic = self.traced = None
        self.host = SimpleNamespace(tracer=None)  # type: ignore[assignment]
        self.error = ErrorCode.NONE
        self.disk_fails = False
        self.is_cold = False
        self.cold_reads = 0
        self.data_waiters = DataWaiters()
        self.uncommitted: list[tuple[Waiter, int]] = []
        self.fetches: list[FetchSpec] = []
        self.end = 0

    @property
    def log_start_offset(self) -> int:
        return 0

    def append_as_leader(
        self,
        records: memoryview,
        acks: int,
        wall_ms: int,
        guard: Verification | None = None,
        verdict: Verdict | None = None,
    ) -> Appended:
        if self.error:
            return Appended(error=self.error)
        batch = bytearray(records)
        if len(batch) < batch_header.HEADER_SIZE:
            return Appended(error=ErrorCode.CORRUPT_MESSAGE, message="no batch")
        header = batch_header.read_header(batch)
        if not batch_header.crc_is_valid(batch, 0, header):
            return Appended(error=ErrorCode.CORRUPT_MESSAGE, message="wrong checksum")
        batch_header.stamp(batch, header, self.end, EPOCH)
        appended = Appended(
            base_offset=self.end,
            last_offset=self.end + header.last_offset_delta,
            log_start_offset=0,
        )
        self.end = appended.last_offset + 1
        self.staged.append((appended, bytes(batch)))
        return appended

    def write(self) -> None:
        staged, self.staged = self.staged, []
        for appended, batch in staged:
            if self.disk_fails:
                appended.error = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            self.batches.append((appended.base_offset, appended.last_offset, batch))
        if staged and self.commits:
            self.commit(self.end)
        if staged:
            self.data_waiters.on_appended(self)

    def commit(self, high_watermark: int, error: ErrorCode = ErrorCode.NONE) -> None:
        self.role = NoRole(self.metadata, high_watermark)
        done = [entry for entry in self.uncommitted if entry[1] <= high_watermark]
        self.uncommitted = [entry for entry in self.uncommitted if entry[1] > high_watermark]
        for waiter, _ in done:
            waiter.appended.error = error
            if waiter.done is not None:
                waiter.done()
        for data_waiter in list(self.data_waiters.waiting or ()):
            if not data_waiter.is_follower:
                data_waiter.on_data(self)

    def when_committed(
        self, appended: Appended, deadline_ms: int, done: Callable[[], None]
    ) -> Waiter | None:
        if appended.last_offset < self.high_watermark:
            done()
            return None
        waiter = Waiter(appended.last_offset + 1, appended, deadline_ms, done)
        self.uncommitted.append((waiter, appended.last_offset + 1))
        return waiter

    def fetch(self, spec: FetchSpec, now_ms: int) -> FetchAnswer:
        self.fetches.append(spec)
        if self.error:
            return FetchAnswer(error=self.error, leader_id=2, leader_epoch=EPOCH + 1)
        limit = self.end if spec.replica_id >= 0 else self.high_watermark
        if not 0 <= spec.fetch_offset <= self.end:
            return FetchAnswer(error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=0)
        answer = FetchAnswer(
            high_watermark=self.high_watermark,
            last_stable_offset=self.high_watermark,
            log_start_offset=0,
        )
        data = b""
        for _, last, batch in self.batches:
            if last < spec.fetch_offset or last >= limit or not spec.max_bytes:
                continue
            if data and len(data) + len(batch) > spec.max_bytes:
                break
            data += batch
        if data and self.is_cold:
            answer.cold = lambda: self._read_cold(data)
        else:
            answer.records = data
        return answer

    async def _read_cold(self, data: bytes) -> bytes:
        self.cold_reads += 1
        await asyncio.sleep(0)
        return data

    def list_offset(
        self,
        timestamp: int,
        *,
        current_leader_epoch: int = -1,
        isolation: int = 0,
        replica_id: int = -1,
    ) -> OffsetAnswer:
        if self.error:
            return OffsetAnswer(error=self.error)
        offset = 0 if timestamp == EARLIEST_TIMESTAMP else self.high_watermark
        return OffsetAnswer(offset=offset, leader_epoch=EPOCH)

    def end_offset_for_epoch(self, epoch: int, *, current_leader_epoch: int = -1) -> OffsetAnswer:
        return OffsetAnswer(offset=self.end, leader_epoch=min(epoch, EPOCH))


class FakePartitions(Partitions):
    """Partitions by index of one topic."""

    def __init__(self, *partitions: FakePartition) -> None:
        self.all = {partition.index: partition for partition in partitions}
        self.heard = FollowersHeard()
        self.host = SimpleNamespace(tracer=None)  # type: ignore[assignment]
        self.on_role_changed = []
        self.image = MetadataImage()
        self.writes = 0
        self.traffic = None

    def get(self, topic_id: bytes, index: int) -> Partition | ErrorCode:
        if topic_id != TOPIC_ID:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self.all.get(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def find(self, topic: str, index: int) -> Partition | ErrorCode:
        if topic != TOPIC:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return self.all.get(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def write_staged(self) -> None:
        self.writes += 1
        for partition in self.all.values():
            if partition.staged:
                partition.write()

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.all.values())

    def __len__(self) -> int:
        return len(self.all)


class FakeController:
    """A fake controller, whose answers the test chooses, and when they come."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int, bytes]] = []
        self.origin: Origin | None = None
        self.answer: bytes | ApiError = ApiError(ErrorCode.NOT_CONTROLLER)
        self.block: tuple[int, int] | ApiError = (5000, 2)
        self.gate = asyncio.Event()
        self.gate.set()

    async def forward(
        self, api_key: int, api_version: int, body: bytes, origin: Origin | None = None
    ) -> bytes:
        self.requests.append((api_key, api_version, body))
        self.origin = origin
        await self.gate.wait()
        if isinstance(self.answer, ApiError):
            raise self.answer
        return self.answer

    async def allocate_producer_ids(self) -> tuple[int, int]:
        await self.gate.wait()
        if isinstance(self.block, ApiError):
            raise self.block
        first, count = self.block
        self.block = (first + 2000, count)
        return first, count


class FakeTransport(asyncio.Transport):
    """A transport that keeps the written bytes; if `is_stuck`, its peer reads nothing."""

    def __init__(self, protocol: Connection) -> None:
        super().__init__({"peername": ("10.0.0.9", 5555)})
        self.protocol = protocol
        self.sent = bytearray()
        self.is_written = asyncio.Event()
        self.closed = asyncio.Event()
        self.writes = 0
        self.is_closed = self.is_aborted = self.is_paused = self.is_stuck = False
        self.unread = 0
        self.high = 64 * 1024

    def write(self, data: Any) -> None:
        self.writes += 1
        self.sent += data
        self.is_written.set()
        if self.is_stuck:
            self.unread += len(data)
            if self.unread > self.high and not self.protocol.outbox.is_paused:
                self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def relieve(self) -> None:
        """The peer reads everything."""
        self.is_stuck = False
        self.unread = 0
        self.protocol.resume_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high or self.high

    def get_write_buffer_size(self) -> int:
        return self.unread

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.closed.set()
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.is_aborted = True
        self.close()


class Client:
    """One peer: sends requests, reads responses."""

    def __init__(self, broker: "FakeBroker", listener: str) -> None:
        came_by = Listener(listener)
        self.connection = Connection(broker.edge, came_by, broker.apis, broker.times)
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)
        self._read = 0
        self._ids = itertools.count(1)
        self.asked: dict[int, tuple[int, int]] = {}

    def frame(self, message: object, version: int) -> bytes:
        correlation_id = next(self._ids)
        frame = b"".join(frame_request(message, version, correlation_id, "test"))
        self.asked[correlation_id] = (struct.unpack_from(">h", frame, 4)[0], version)
        return frame

    def send(self, message: object, version: int) -> None:
        self.feed(self.frame(message, version))

    def feed(self, data: bytes, *, at_once: int = 1 << 30) -> None:
        """Pass bytes to the connection as the loop would."""
        position = 0
        while position < len(data) and not self.transport.is_closed:
            buffer = memoryview(self.connection.get_buffer(-1))
            size = min(len(buffer), len(data) - position, at_once)
            buffer[:size] = data[position : position + size]
            self.connection.buffer_updated(size)
            position += size

    def responses(self) -> list[Any]:
        """Decode the responses that came since the last call, in order."""
        found: list[Any] = []
        sent = self.transport.sent
        while len(sent) - self._read >= 4:
            (size,) = struct.unpack_from(">i", sent, self._read)
            frame = bytes(sent[self._read + 4 : self._read + 4 + size])
            assert len(frame) == size
            self._read += 4 + size
            correlation_id = int.from_bytes(frame[:4], "big")
            key, version = self.asked.pop(correlation_id)
            message: Any
            _, message = decode_response_frame(response_class(key), version, frame)
            found.append(message)
        return found

    async def next_responses(self) -> list[Any]:
        """Wait until something is written."""
        async with asyncio.timeout(5):
            self.transport.is_written.clear()
            await self.transport.is_written.wait()
        return self.responses()

    def ask(self, message: object, version: int) -> Any:
        """Send a request, and return the one response, which must be there at once."""
        self.send(message, version)
        (response,) = self.responses()
        return response


class Stock(NamedTuple):
    """The parts of an edge that a test replaces."""

    runtime: Runtime
    partitions: Partitions
    deadlines: Deadlines
    metadata: Metadata
    controller: ActiveController


class Front:
    """The edge of a broker with its request handlers, over the test's parts."""

    def __init__(self, stock: Stock, settings: dict[str, str], defaults: TopicDefaults) -> None:
        config = from_mapping(BrokerConfig, settings)
        read = Settings(config, settings, warnings=[])
        ground = Ground(stock.runtime, read, defaults, stock.deadlines, ClockAhead(stock.runtime))
        where = Whereabouts(stock.metadata, config.node_id, inter_broker_listener(config))
        self.peers = make_peers(stock.runtime, config.node_id, Reach(where.peer))
        self.edge = make_edge(
            Surroundings(
                ground=ground,
                metadata=stock.metadata,
                whereabouts=where,
                controller=stock.controller,
                partitions=stock.partitions,
                peers=self.peers,
                lease=LeaderLease(),
            )
        )
        self.sessions = make_sessions(stock.runtime, config)
        self.apis = make_apis(self.edge, self.sessions)


def connections_of(edge: Edge) -> list[Connection]:
    """Those that are open."""
    return [each for each in edge.doors.connections if isinstance(each, Connection)]


class FakeBroker:
    """An edge with everything around it faked."""

    times: RequestTimes | None = None

    def __init__(self, *partitions: FakePartition, **settings: str) -> None:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        mapping = {"node.id": str(NODE), "controller.quorum.bootstrap.servers": "c:1", **given}
        self.runtime = SystemRuntime("broker-1")
        self.deadlines = Deadlines(self.runtime)
        self.partitions = FakePartitions(*(partitions or (FakePartition(0),)))
        self.controller = FakeController()
        self.image = image_of(len(self.partitions))
        stock = Stock(self.runtime, self.partitions, self.deadlines, self, self.controller)
        front = Front(stock, mapping, TopicDefaults(NODE, mapping))
        self.edge, self.peers, self.apis = front.edge, front.peers, front.apis
        self.clients: list[Client] = []

    def connect(self, listener: str = "PLAINTEXT") -> Client:
        self.clients.append(Client(self, listener))
        return self.clients[-1]

    @property
    def partition(self) -> FakePartition:
        return self.partitions.all[0]

    def close(self) -> None:
        self.deadlines.close()
        self.runtime.close()


def endpoint(broker_id: int, name: str) -> Endpoint:
    return Endpoint(name, f"{name.lower()}-{broker_id}.example", 9000 + broker_id)


def image_of(partition_count: int) -> MetadataImage:
    """Make an image: brokers 1 and 2 are alive, 3 is fenced, and broker 1 leads one topic."""
    image = MetadataImage()
    offset = itertools.count()
    image.apply(r.ClusterRecord("c1uster"), next(offset))
    for broker_id in (1, 2, 3):
        names = ("PLAINTEXT", "OUTSIDE") if broker_id != 2 else ("PLAINTEXT",)
        image.apply(
            r.RegisterBrokerRecord(
                broker_id,
                bytes([broker_id] * 16),
                (bytes([broker_id] * 16),),
                tuple(endpoint(broker_id, name) for name in names),
                f"rack{broker_id}",
                {"metadata.version": VersionRange(1, 1)},
                fenced=broker_id == 3,
            ),
            next(offset),
        )
    image.apply(r.TopicRecord(TOPIC, TOPIC_ID), next(offset))
    for index in range(partition_count):
        image.apply(
            r.PartitionRecord(TOPIC_ID, index, (1, 2, 3), (1, 2), NODE, EPOCH, 5), next(offset)
        )
    return image


def batch(*values: bytes) -> bytes:
    """Build a record batch as a producer sends it."""
    return bytes(build([NewRecord(1000 + i, None, value) for i, value in enumerate(values)]))


def heard_by(broker: FakeBroker) -> list[int]:
    """Return the followers whose fetches counted, by the silence of them all from now on."""
    heard, silent = broker.partitions.heard, list[int]()
    for now_ms in range(1 << 60, (1 << 60) + 3 * SILENT_MS, LOOK_MS):
        silent = heard.silent(now_ms)
    return silent


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(10):
        await asyncio.sleep(0)
