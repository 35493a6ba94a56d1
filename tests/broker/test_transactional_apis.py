"""Produce within transactions, WriteTxnMarkers, DescribeProducers: what brokers answer, in full."""

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from minikafka.protocol.messages.end_txn import EndTxnRequest
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from minikafka.protocol.records.records import BatchBuilder

from ..simulation.stage import Stage, staged

ONE = {
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
OLD_PRODUCE, NEW_PRODUCE = 9, 12
"""Clients that say AddPartitionsToTxn themselves, and those that rely on the leader."""
READ_COMMITTED = 1


class Client:
    """A transactional producer whose every request the test decides."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.producer_id = self.epoch = -1

    async def begin(self, version: int) -> "Client":
        """A broker, a topic, a producer id."""
        await self.stage.create_topic("t", 2, replication=1)
        found = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
        while (await self.stage.ask(1, found)).coordinators[0].error_code:
            await self.stage.sleep(0.1)
        asked = InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000)
        while (given := await self.stage.ask(1, asked, version)).error_code:
            await self.stage.sleep(0.1)
        self.producer_id, self.epoch = given.producer_id, given.producer_epoch
        return self

    def batch(self, sequence: int, value: bytes = b"v", *, epoch: int | None = None) -> bytes:
        builder = BatchBuilder(is_transactional=True)
        builder.append(1, b"k", value)
        return bytes(
            builder.build(
                producer_id=self.producer_id,
                producer_epoch=self.epoch if epoch is None else epoch,
                base_sequence=sequence,
            )
        )

    async def produce(
        self, *batches: bytes, version: int, transactional_id: str | None = "tx"
    ) -> list[ErrorCode]:
        """One batch for each of the topic's partitions."""
        data = [PartitionProduceData(index=n, records=each) for n, each in enumerate(batches)]
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=data)],
        )
        response = await self.stage.ask(1, request, version)
        return [ErrorCode(p.error_code) for p in response.responses[0].partition_responses]

    async def add(self, *indexes: int) -> None:
        topic = AddPartitionsToTxnTopic(name="t", partitions=list(indexes))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="tx",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        while True:
            answer = (await self.stage.ask(1, request, 3)).results_by_topic_v3_and_below[0]
            if not any(each.partition_error_code for each in answer.results_by_partition):
                return
            await self.stage.sleep(0.05)

    async def end(self, version: int, *, commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id="tx",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        answer = await self.stage.ask(1, request, version)
        assert not answer.error_code
        if version >= 5:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        partitions = [self.stage.partition(1, "t", index) for index in (0, 1)]
        await self.stage.until(
            lambda: not any(p.log.producers.has_undecided for p in partitions), "it is decided"
        )


@staged(brokers=1, broker=ONE)
async def test_a_client_that_says_what_it_writes_to_is_asked_for_it(stage: Stage) -> None:
    """Produce before version 12: a partition that is not in the transaction is refused."""
    client = await Client(stage).begin(4)
    assert await client.produce(client.batch(0), version=OLD_PRODUCE) == [
        ErrorCode.INVALID_TXN_STATE
    ]
    assert await client.produce(client.batch(0), version=11) == [ErrorCode.TRANSACTION_ABORTABLE]
    await client.add(0)
    both = await client.produce(client.batch(0), client.batch(0), version=OLD_PRODUCE)
    assert both == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]
    assert await client.produce(client.batch(1), version=OLD_PRODUCE) == [ErrorCode.NONE]
    assert stage.partition(1, "t").log_end_offset == 2
    await client.end(3, commit=True)
    assert stage.partition(1, "t").last_stable_offset == 3
    late = await client.produce(client.batch(2), version=OLD_PRODUCE)
    assert late == [ErrorCode.INVALID_TXN_STATE]
    assert stage.partition(1, "t").last_stable_offset == 3


@staged(brokers=1, broker=ONE)
async def test_a_client_that_does_not_say_it_has_it_said_for_it(stage: Stage) -> None:
    """Produce 12 and later: the leader takes the partition into the transaction; what comes with
    the epoch of an earlier one is fenced."""
    client = await Client(stage).begin(5)
    both = await client.produce(client.batch(0), client.batch(0), version=NEW_PRODUCE)
    assert both == [ErrorCode.NONE, ErrorCode.NONE]
    assert await client.produce(client.batch(1), version=NEW_PRODUCE) == [ErrorCode.NONE]
    before = client.epoch
    await client.end(5, commit=False)
    assert client.epoch == before + 1
    late = await client.produce(client.batch(2, epoch=before), version=NEW_PRODUCE)
    assert late == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert await client.produce(client.batch(0), version=NEW_PRODUCE) == [ErrorCode.NONE]
    await client.end(5, commit=True)
    assert not stage.partition(1, "t").log.producers.has_undecided


@staged(brokers=1, broker=ONE)
async def test_a_transactional_batch_needs_its_id_and_one_producer(stage: Stage) -> None:
    client = await Client(stage).begin(5)
    refused = await client.produce(client.batch(0), version=NEW_PRODUCE, transactional_id=None)
    assert refused == [ErrorCode.INVALID_TXN_STATE]
    two = client.batch(0), client.batch(0, epoch=client.epoch + 1)
    assert await client.produce(*two, version=NEW_PRODUCE) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ]
    broken = await client.produce(client.batch(1)[:-1], b"", version=NEW_PRODUCE)
    assert broken == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE]
    builder = BatchBuilder(is_transactional=True)
    builder.append(1, b"k", b"nobody's")
    nobodys = await client.produce(bytes(builder.build()), version=NEW_PRODUCE)
    assert nobodys == [ErrorCode.INVALID_RECORD]
    builder = BatchBuilder(is_transactional=True, is_control=True)
    builder.append(1, b"\0\0\0\1", b"\0\0\0\0\0\0")
    control = builder.build(producer_id=client.producer_id, producer_epoch=0, base_sequence=1)
    forged = await client.produce(bytes(control), version=NEW_PRODUCE)
    assert forged == [ErrorCode.INVALID_RECORD]
    assert stage.partition(1, "t").log_end_offset == 1


def marker(client: Client, *topics: tuple[str, list[int]], **fields: int) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=client.producer_id,
        producer_epoch=fields.get("epoch", client.epoch),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=of) for name, of in topics],
        coordinator_epoch=fields.get("coordinator", 0),
    )


@staged(brokers=1, broker=ONE)
async def test_markers_end_what_hangs_and_producers_tell_of_it(stage: Stage) -> None:
    """As an operator does: DescribeProducers, then WriteTxnMarkers to the leader."""
    client = await Client(stage).begin(5)
    await client.produce(client.batch(0), client.batch(0), version=NEW_PRODUCE)
    topics = [
        TopicRequest(name="t", partition_indexes=[0, 7]),
        TopicRequest(name="nowhere", partition_indexes=[0]),
    ]
    described = await stage.ask(1, DescribeProducersRequest(topics=topics))
    (first, unknown), (nowhere,) = (topic.partitions for topic in described.topics)
    (producer,) = first.active_producers
    assert (producer.producer_id, producer.producer_epoch) == (client.producer_id, client.epoch)
    assert (producer.last_sequence, producer.current_txn_start_offset) == (0, 0)
    assert (producer.last_timestamp, producer.coordinator_epoch) == (1, -1)
    assert unknown.error_code == nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    old = marker(client, ("t", [0]), epoch=client.epoch - 1)
    ends = marker(client, ("t", [0, 1, 7]), ("nowhere", [0]), coordinator=3)
    fenced = marker(client, ("t", [1]), coordinator=2)
    request = WriteTxnMarkersRequest(markers=[old, ends, fenced])
    answered = (await stage.ask(1, request)).markers
    errors = [[[p.error_code for p in t.partitions] for t in each.topics] for each in answered]
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert errors == [
        [[ErrorCode.INVALID_PRODUCER_EPOCH]],
        [[ErrorCode.NONE, ErrorCode.NONE, missing], [missing]],
        [[ErrorCode.TRANSACTION_COORDINATOR_FENCED]],
    ]
    described = await stage.ask(1, DescribeProducersRequest(topics=topics))
    (producer,) = described.topics[0].partitions[0].active_producers
    assert (producer.current_txn_start_offset, producer.coordinator_epoch) == (-1, 3)


@staged(brokers=2, broker=ONE)
async def test_only_leaders_take_markers(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2]])
    client = Client(stage)
    client.producer_id = client.epoch = 7
    request = WriteTxnMarkersRequest(markers=[marker(client, ("t", [0]))])
    (answered,) = (await stage.ask(2, request)).markers
    assert answered.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    (answered,) = (await stage.ask(1, request)).markers
    assert answered.topics[0].partitions[0].error_code == ErrorCode.NONE


@staged(brokers=2, broker=ONE)
async def test_every_replica_tells_of_producers(stage: Stage) -> None:
    """An operator asks one broker after the other what hangs there (find-hanging --broker-id)."""
    await stage.create_topic("t", [[1, 2]])
    await stage.create_topic("u", [[1]])
    client = Client(stage)
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    batch = bytes(builder.build(producer_id=7, producer_epoch=0, base_sequence=0))
    assert await client.produce(batch, version=NEW_PRODUCE, transactional_id=None) == [0]
    topics = [TopicRequest(name=name, partition_indexes=[0]) for name in ("t", "u")]
    described = await stage.ask(2, DescribeProducersRequest(topics=topics))
    (here,), (elsewhere,) = (topic.partitions for topic in described.topics)
    assert here.error_code == ErrorCode.NONE
    assert [each.producer_id for each in here.active_producers] == [7]
    assert elsewhere.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@staged(brokers=1, broker=ONE)
async def test_readers_of_committed_transactions_are_told_what_does_not_count(
    stage: Stage,
) -> None:
    client = await Client(stage).begin(5)
    await client.produce(client.batch(0, b"aborted"), version=NEW_PRODUCE)
    await client.end(5, commit=False)
    await client.produce(client.batch(0, b"open"), version=NEW_PRODUCE)

    async def ends(isolation: int) -> tuple[int, int, list[tuple[int, int]] | None]:
        wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation,
            topics=[ListOffsetsTopic(name="t", partitions=[wanted])],
        )
        found = (await stage.ask(1, request)).topics[0].partitions[0]
        part = FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20)
        topic_id = stage.image().topic_ids["t"]
        fetch = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=isolation,
            topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[part])],
        )
        data = (await stage.ask(1, fetch)).responses[0].partitions[0]
        assert (data.high_watermark, data.last_stable_offset) == (3, 2)
        told = data.aborted_transactions
        aborted = None if told is None else [(a.producer_id, a.first_offset) for a in told]
        return found.offset, len(data.records or b""), aborted

    offset, size, aborted = await ends(READ_COMMITTED)
    assert (offset, aborted) == (2, [(client.producer_id, 0)])
    all_offset, all_size, nothing = await ends(0)
    assert (all_offset, nothing) == (3, None)
    assert size < all_size
