"""A cluster of brokers in this process that speaks the wire protocol and can be made to misbehave.

A model, not a broker: one shared log per partition, so nothing is ever replicated or lost unless a
test does it. Leaders move at a call; a fault per request can be planted.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from minikafka.protocol import codec
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import api_versions as av
from minikafka.protocol.messages import create_topics as ct
from minikafka.protocol.messages import delete_topics as dt
from minikafka.protocol.messages import fetch as ft
from minikafka.protocol.messages import init_producer_id as ipi
from minikafka.protocol.messages import list_offsets as lo
from minikafka.protocol.messages import metadata as md
from minikafka.protocol.messages import offset_for_leader_epoch as ofle
from minikafka.protocol.messages import produce as pr
from minikafka.protocol.records.record_batch import (
    BatchHeader,
    headers,
    read_header,
    records,
    stamp,
)
from minikafka.protocol.schema import shape_of

SEQUENCES = 0x7FFFFFFF


class Close(Exception):
    """A fault: end the connection without an answer."""


class Silence(Exception):
    """A fault: never answer this request, but keep the connection."""


@dataclass
class Garbage(Exception):
    """A fault: answer with these bytes in place of a body."""

    body: bytes


@dataclass
class Refuse(Exception):
    """A fault: answer every partition of the request with this code, doing nothing."""

    code: ErrorCode


@dataclass
class ProducerEntry:
    epoch: int
    last_sequence: int
    recent: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, last sequence, base offset) of the newest five batches."""


@dataclass
class FakePartition:
    leader: int
    leader_epoch: int = 0
    batches: list[bytearray] = field(default_factory=list)
    log_start_offset: int = 0
    log_end_offset: int = 0
    producers: dict[int, ProducerEntry] = field(default_factory=dict)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    nearer: int = -1
    """The replica to which the leader refers a reader that has nothing new to read."""

    def append(self, batch: bytearray) -> int:
        header = read_header(batch)
        base = self.log_end_offset
        stamp(batch, header, base, self.leader_epoch)
        self.batches.append(batch)
        self.log_end_offset = base + header.last_offset_delta + 1
        return base

    def produce(self, data: memoryview) -> tuple[ErrorCode, int]:
        batch = bytearray(data)
        header = read_header(batch)
        if header.producer_id < 0:
            return ErrorCode.NONE, self.append(batch)
        entry = self.producers.get(header.producer_id)
        last = header.last_sequence
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_epoch, -1)
        elif header.producer_epoch < entry.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        elif header.producer_epoch > entry.epoch:
            if header.base_sequence != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            entry = ProducerEntry(header.producer_epoch, -1)
            self.producers[header.producer_id] = entry
        else:
            for first, recent_last, base in entry.recent:
                if (first, recent_last) == (header.base_sequence, last):
                    return ErrorCode.NONE, base
            if header.base_sequence != (entry.last_sequence + 1) & SEQUENCES:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        base = self.append(batch)
        entry.last_sequence = last
        entry.recent = [*entry.recent, (header.base_sequence, last, base)][-5:]
        return ErrorCode.NONE, base

    def truncate_to(self, offset: int) -> None:
        """Cut the log and the producers' state as an unclean election does."""
        self.batches = [b for b in self.batches if read_header(b).last_offset < offset]
        self.log_end_offset = (
            read_header(self.batches[-1]).last_offset + 1 if self.batches else self.log_start_offset
        )
        self.producers.clear()

    def read(self, offset: int, max_bytes: int) -> bytes:
        out = b""
        for batch in self.batches:
            if read_header(batch).last_offset < offset:
                continue
            if out and len(out) + len(batch) > max_bytes:
                break
            out += batch
        return out

    def values(self) -> list[bytes | None]:
        return [r.value for b in self.batches if not read_header(b).is_control for r in records(b)]

    def offset_at(self, timestamp: int) -> tuple[int, int]:
        for batch in self.batches:
            for record in records(batch):
                if record.timestamp >= timestamp:
                    return record.offset, record.timestamp
        return -1, -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        found = (-1, -1)
        for _, header in self.headers():
            if header.leader_epoch <= epoch:
                found = (header.leader_epoch, header.last_offset + 1)
        if epoch >= self.leader_epoch:
            return self.leader_epoch, self.log_end_offset
        return found

    def headers(self) -> list[tuple[int, BatchHeader]]:
        return [found for batch in self.batches for found in headers(batch)]


@dataclass
class FakeTopic:
    name: str
    topic_id: bytes
    partitions: list[FakePartition]


Fault = Callable[["FakeNode", int, Any], None]
"""Called with each decoded request before it is carried out; may raise one of the faults above."""


class FakeCluster:
    """Some brokers; `async with FakeCluster(3) as cluster`."""

    def __init__(self, node_count: int = 1) -> None:
        self.nodes = {node_id: FakeNode(self, node_id) for node_id in range(1, node_count + 1)}
        self.topics: dict[str, FakeTopic] = {}
        self.auto_create = False
        self.has_topic_ids = True
        self.fault: Fault | None = None
        self.after: Fault | None = None
        """As `fault`, but called when the request has been carried out."""
        self.throttle_ms: dict[int, int] = {}
        """By API key, the throttle time that each answer states; nothing here enforces it."""
        self.changed = asyncio.Event()
        self.carried_out = asyncio.Event()
        self.next_producer_id = 1000
        self.versions: dict[int, tuple[int, int]] = {
            key: (shape_of(cls).versions.first, shape_of(cls).versions.last)
            for key, cls in ((key, codec.request_class(key)) for key in HANDLERS)
        }
        self.requests: list[tuple[int, int, Any]] = []
        """(node id, API key, request) in the order they were carried out."""

    async def __aenter__(self) -> "FakeCluster":
        for node in self.nodes.values():
            await node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for node in self.nodes.values():
            await node.stop()

    @property
    def bootstrap(self) -> list[str]:
        return [f"127.0.0.1:{node.port}" for node in self.nodes.values()]

    def create(self, name: str, partitions: int = 1, leader: int = 1) -> FakeTopic:
        topic_id = bytes([len(self.topics) + 1]) * 16 if self.has_topic_ids else bytes(16)
        nodes = list(self.nodes)
        leaders = [nodes[(nodes.index(leader) + i) % len(nodes)] for i in range(partitions)]
        topic = FakeTopic(name, topic_id, [FakePartition(node) for node in leaders])
        self.topics[name] = topic
        self.notify()
        return topic

    def move(self, topic: str, partition: int, leader: int) -> None:
        part = self.topics[topic].partitions[partition]
        part.leader = leader
        part.leader_epoch += 1
        self.notify()

    def notify(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; it is checked after each request."""
        while not condition():
            await self.carried_out.wait()

    def find(self, name: str, topic_id: bytes) -> FakeTopic | None:
        if name:
            return self.topics.get(name)
        return next((t for t in self.topics.values() if t.topic_id == topic_id), None)

    def sent(self, key: ApiKey) -> list[Any]:
        return [request for _, api, request in self.requests if api == key]


class FakeNode:
    """One listener of the cluster."""

    def __init__(self, cluster: FakeCluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.port = 0
        self.is_stopped = False
        """Like SIGSTOP: connections stay, nothing is read or answered."""
        self.resumed = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Like SIGKILL: connections end, the port refuses."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task, writer in list(self._tasks.items()):
            writer.transport.abort()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def freeze(self) -> None:
        self.is_stopped = True
        self.resumed = asyncio.Event()

    def thaw(self) -> None:
        self.is_stopped = False
        self.resumed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks[task] = writer
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, Close):
                while True:
                    size = int.from_bytes(await reader.readexactly(4), "big")
                    frame = await reader.readexactly(size)
                    if self.is_stopped:
                        await self.resumed.wait()
                    await self._answer(memoryview(frame), writer)
        except asyncio.CancelledError:
            pass
        finally:
            del self._tasks[task]
            writer.close()

    async def _answer(self, frame: memoryview, writer: asyncio.StreamWriter) -> None:
        header, position = codec.decode_request_header(frame)
        key, version = header.api_key, header.api_version
        first, last = self.cluster.versions.get(key, (0, -1))
        if key == ApiKey.API_VERSIONS and not first <= version <= last:
            refusal = api_versions(self, None)
            refusal.error_code = int(ErrorCode.UNSUPPORTED_VERSION)
            writer.write(b"".join(codec.frame_response(refusal, 0, header.correlation_id)))
            return
        if not first <= version <= last:
            raise Close
        request: Any = codec.decode_at(codec.request_class(key), version, frame, position)
        try:
            response = await self._carry_out(key, request)
        except Silence:
            return
        except Garbage as garbage:
            body = header.correlation_id.to_bytes(4, "big") + garbage.body
            writer.write(len(body).to_bytes(4, "big") + body)
            return
        if response is not None:
            if key in self.cluster.throttle_ms:
                response.throttle_time_ms = self.cluster.throttle_ms[key]
            writer.write(b"".join(codec.frame_response(response, version, header.correlation_id)))

    async def _carry_out(self, key: int, request: Any) -> Any:
        try:
            if self.cluster.fault is not None:
                self.cluster.fault(self, key, request)
            self.cluster.requests.append((self.node_id, key, request))
            self.cluster.carried_out.set()
            self.cluster.carried_out = asyncio.Event()
            response = HANDLERS[key](self, request)
            if asyncio.iscoroutine(response):
                response = await response
        except Refuse as refusal:
            return REFUSALS[key](request, refusal.code)
        if self.cluster.after is not None:
            self.cluster.after(self, key, request)
        return response


def api_versions(node: FakeNode, request: Any) -> av.ApiVersionsResponse:
    keys = [
        av.ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in node.cluster.versions.items()
    ]
    return av.ApiVersionsResponse(api_keys=keys)


def metadata(node: FakeNode, request: md.MetadataRequest) -> md.MetadataResponse:
    cluster = node.cluster
    names = list(cluster.topics) if request.topics is None else [t.name for t in request.topics]
    topics = []
    for name in names:
        assert name is not None
        if name not in cluster.topics and cluster.auto_create and request.allow_auto_topic_creation:
            cluster.create(name)
        topic = cluster.topics.get(name)
        if topic is None:
            code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topics.append(md.MetadataResponseTopic(name=name, error_code=code))
            continue
        partitions = [
            md.MetadataResponsePartition(
                partition_index=index,
                leader_id=part.leader,
                leader_epoch=part.leader_epoch,
                replica_nodes=list(cluster.nodes),
                isr_nodes=list(cluster.nodes),
            )
            for index, part in enumerate(topic.partitions)
        ]
        topics.append(
            md.MetadataResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions)
        )
    brokers = [
        md.MetadataResponseBroker(node_id=n.node_id, host="127.0.0.1", port=n.port)
        for n in cluster.nodes.values()
    ]
    return md.MetadataResponse(
        brokers=brokers, cluster_id="fake", controller_id=node.node_id, topics=topics
    )


def led_here(node: FakeNode, name: str, topic_id: bytes, index: int) -> FakePartition | ErrorCode:
    topic = node.cluster.find(name, topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
    if not 0 <= index < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    part = topic.partitions[index]
    return part if part.leader == node.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER


def produce(node: FakeNode, request: pr.ProduceRequest) -> pr.ProduceResponse | None:
    response = pr.ProduceResponse(responses=[])
    for topic in request.topic_data:
        answers = []
        for data in topic.partition_data:
            assert data.records is not None
            part = led_here(node, topic.name, topic.topic_id, data.index)
            code, base = (
                (part, -1)
                if isinstance(part, ErrorCode)
                else part.produce(memoryview(data.records))
            )
            answers.append(
                pr.PartitionProduceResponse(
                    index=data.index, error_code=int(code), base_offset=base
                )
            )
        response.responses.append(
            pr.TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=answers
            )
        )
    node.cluster.notify()
    return response if request.acks else None


def refuse_produce(request: pr.ProduceRequest, code: ErrorCode) -> pr.ProduceResponse:
    return pr.ProduceResponse(
        responses=[
            pr.TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    pr.PartitionProduceResponse(
                        index=data.index, error_code=int(code), base_offset=-1
                    )
                    for data in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


async def fetch(node: FakeNode, request: ft.FetchRequest) -> ft.FetchResponse:
    """Sessionless: every answer says session 0, so clients name everything each time."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + request.max_wait_ms / 1000
    while True:
        changed = node.cluster.changed
        response = read_all(node, request)
        left = deadline - loop.time()
        if left <= 0 or any(
            p.records or p.error_code for t in response.responses for p in t.partitions
        ):
            return response
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left):
                await changed.wait()


def read_all(node: FakeNode, request: ft.FetchRequest) -> ft.FetchResponse:
    response = ft.FetchResponse(responses=[])
    for topic in request.topics:
        answers = [read_one(node, topic, wanted) for wanted in topic.partitions]
        response.responses.append(
            ft.FetchableTopicResponse(
                topic=topic.topic, topic_id=topic.topic_id, partitions=answers
            )
        )
    return response


def read_one(node: FakeNode, topic: ft.FetchTopic, wanted: ft.FetchPartition) -> ft.PartitionData:
    part = led_here(node, topic.topic, topic.topic_id, wanted.partition)
    if isinstance(part, FakePartition):
        code = ErrorCode.NONE
        if -1 < wanted.current_leader_epoch < part.leader_epoch:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif wanted.current_leader_epoch > part.leader_epoch:
            code = ErrorCode.UNKNOWN_LEADER_EPOCH
        elif not part.log_start_offset <= wanted.fetch_offset <= part.log_end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
    else:
        code, part = part, FakePartition(-1)
    data = part.read(wanted.fetch_offset, wanted.partition_max_bytes) if not code else b""
    return ft.PartitionData(
        partition_index=wanted.partition,
        error_code=int(code),
        high_watermark=part.log_end_offset,
        last_stable_offset=part.log_end_offset,
        log_start_offset=part.log_start_offset,
        aborted_transactions=[
            ft.AbortedTransaction(producer_id=pid, first_offset=first)
            for pid, first in part.aborted
        ],
        preferred_read_replica=part.nearer,
        records=data,
    )


def refuse_fetch(request: ft.FetchRequest, code: ErrorCode) -> ft.FetchResponse:
    return ft.FetchResponse(
        responses=[
            ft.FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    ft.PartitionData(
                        partition_index=wanted.partition,
                        error_code=int(code),
                        high_watermark=-1,
                        records=b"",
                    )
                    for wanted in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def list_offsets(node: FakeNode, request: lo.ListOffsetsRequest) -> lo.ListOffsetsResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            part = led_here(node, topic.name, bytes(16), wanted.partition_index)
            answer = lo.ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            if isinstance(part, ErrorCode):
                answer.error_code = int(part)
            elif wanted.timestamp == lo.LATEST_TIMESTAMP:
                answer.offset, answer.leader_epoch = part.log_end_offset, part.leader_epoch
            elif wanted.timestamp == lo.EARLIEST_TIMESTAMP:
                answer.offset, answer.leader_epoch = part.log_start_offset, part.leader_epoch
            else:
                answer.offset, answer.timestamp = part.offset_at(wanted.timestamp)
            answers.append(answer)
        topics.append(lo.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return lo.ListOffsetsResponse(topics=topics)


def end_of_epoch(
    node: FakeNode, request: ofle.OffsetForLeaderEpochRequest
) -> ofle.OffsetForLeaderEpochResponse:
    topics = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            part = led_here(node, topic.topic, bytes(16), wanted.partition)
            answer = ofle.EpochEndOffset(partition=wanted.partition)
            if isinstance(part, ErrorCode):
                answer.error_code = int(part)
            else:
                answer.leader_epoch, answer.end_offset = part.end_of_epoch(wanted.leader_epoch)
            answers.append(answer)
        topics.append(ofle.OffsetForLeaderTopicResult(topic=topic.topic, partitions=answers))
    return ofle.OffsetForLeaderEpochResponse(topics=topics)


def init_producer_id(
    node: FakeNode, request: ipi.InitProducerIdRequest
) -> ipi.InitProducerIdResponse:
    node.cluster.next_producer_id += 1
    return ipi.InitProducerIdResponse(producer_id=node.cluster.next_producer_id)


def create_topics(node: FakeNode, request: ct.CreateTopicsRequest) -> ct.CreateTopicsResponse:
    results = []
    for topic in request.topics:
        result = ct.CreatableTopicResult(name=topic.name, num_partitions=topic.num_partitions)
        if topic.name in node.cluster.topics:
            result.error_code = int(ErrorCode.TOPIC_ALREADY_EXISTS)
        elif not request.validate_only:
            result.topic_id = node.cluster.create(topic.name, max(topic.num_partitions, 1)).topic_id
        results.append(result)
    return ct.CreateTopicsResponse(topics=results)


def refuse_topics(request: ct.CreateTopicsRequest, code: ErrorCode) -> ct.CreateTopicsResponse:
    return ct.CreateTopicsResponse(
        topics=[
            ct.CreatableTopicResult(name=topic.name, error_code=int(code))
            for topic in request.topics
        ]
    )


def delete_topics(node: FakeNode, request: dt.DeleteTopicsRequest) -> dt.DeleteTopicsResponse:
    results = []
    for state in request.topics or [dt.DeleteTopicState(name=n) for n in request.topic_names]:
        assert state.name is not None
        known = node.cluster.topics.pop(state.name, None)
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.NONE
        results.append(dt.DeletableTopicResult(name=state.name, error_code=int(code)))
    return dt.DeleteTopicsResponse(responses=results)


HANDLERS: dict[int, Callable[..., Any]] = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.METADATA: metadata,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.CREATE_TOPICS: create_topics,
    ApiKey.DELETE_TOPICS: delete_topics,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: end_of_epoch,
}
REFUSALS: dict[int, Callable[..., Any]] = {
    ApiKey.CREATE_TOPICS: refuse_topics,
    ApiKey.PRODUCE: refuse_produce,
    ApiKey.FETCH: refuse_fetch,
    ApiKey.INIT_PRODUCER_ID: lambda _, code: ipi.InitProducerIdResponse(error_code=int(code)),
}
