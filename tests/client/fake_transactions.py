"""A transaction coordinator and a group coordinator for all nodes of the fake cluster.

A model: state changes at once, markers are "written" by deciding which batches count.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest

from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import add_offsets_to_txn as aot
from minikafka.protocol.messages import add_partitions_to_txn as apt
from minikafka.protocol.messages import api_versions as av
from minikafka.protocol.messages import end_txn as et
from minikafka.protocol.messages import find_coordinator as fc
from minikafka.protocol.messages import init_producer_id as ipi
from minikafka.protocol.messages import produce as pr
from minikafka.protocol.messages import txn_offset_commit as toc
from minikafka.protocol.records.record_batch import read_header, records
from minikafka.protocol.types import TopicPartition

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode


@dataclass
class FakeTransaction:
    producer_id: int
    epoch: int = 0
    is_open: bool = False
    partitions: dict[TopicPartition, None] = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)
    offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    last_end: tuple[int, bool] | None = None
    """The epoch that ended last, and how: a repeated EndTxn is answered again."""


class FakeCoordinator:
    """The state of transactions in one fake cluster."""

    def __init__(self, cluster: FakeCluster, version: int) -> None:
        self.cluster = cluster
        self.version = version
        self.transactions: dict[str, FakeTransaction] = {}
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.decided: dict[tuple[TopicPartition, int], bool] = {}
        """By partition and base offset: True if the batch is committed."""

    def visible(self, topic: str) -> list[bytes | None]:
        """What read_committed would see."""
        return [
            record.value
            for index, part in enumerate(self.cluster.topics[topic].partitions)
            for batch in part.batches
            if self.decided.get((TopicPartition(topic, index), read_header(batch).base_offset))
            for record in records(batch)
        ]

    def end(self, transaction: FakeTransaction, *, commit: bool) -> None:
        for partition in transaction.partitions:
            part = self.cluster.topics[partition.topic].partitions[partition.partition]
            for batch in part.batches:
                header = read_header(batch)
                if header.producer_id == transaction.producer_id and header.is_transactional:
                    self.decided.setdefault((partition, header.base_offset), commit)
        if commit:
            self.committed.update(transaction.offsets)
        transaction.last_end = (transaction.epoch, commit)
        transaction.is_open = False
        transaction.partitions.clear()
        transaction.groups.clear()
        transaction.offsets.clear()

    def check(self, name: str, producer_id: int, epoch: int) -> FakeTransaction | ErrorCode:
        found = self.transactions.get(name)
        if found is None or found.producer_id != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return found if found.epoch == epoch else ErrorCode.PRODUCER_FENCED

    # -- the APIs

    def find(self, node: FakeNode, request: fc.FindCoordinatorRequest) -> Any:
        where = {"node_id": node.node_id, "host": "127.0.0.1", "port": node.port}
        found = [fc.Coordinator(key=key, **where) for key in request.coordinator_keys]  # type: ignore[arg-type]
        return fc.FindCoordinatorResponse(coordinators=found, **where)  # type: ignore[arg-type]

    def init(self, node: FakeNode, request: ipi.InitProducerIdRequest) -> Any:
        if request.transactional_id is None:
            return fake_broker.init_producer_id(node, request)
        found = self.transactions.get(request.transactional_id)
        if found is None:
            self.cluster.next_producer_id += 1
            found = FakeTransaction(self.cluster.next_producer_id)
            self.transactions[request.transactional_id] = found
        elif request.producer_id >= 0 and (found.producer_id, found.epoch) != (
            request.producer_id,
            request.producer_epoch,
        ):
            return ipi.InitProducerIdResponse(error_code=int(ErrorCode.PRODUCER_FENCED))
        else:
            self.end(found, commit=False)
            found.last_end = None
            found.epoch += 1
        return ipi.InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.epoch)

    def add_partitions(self, node: FakeNode, request: apt.AddPartitionsToTxnRequest) -> Any:
        found = self.check(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        code = found if isinstance(found, ErrorCode) else ErrorCode.NONE
        results = []
        for topic in request.v3_and_below_topics:
            for index in topic.partitions:
                if isinstance(found, FakeTransaction):
                    found.is_open = True
                    found.partitions[TopicPartition(topic.name, index)] = None
            ones = [
                apt.AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=int(code)
                )
                for index in topic.partitions
            ]
            results.append(
                apt.AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=ones)
            )
        return apt.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    def add_offsets(self, node: FakeNode, request: aot.AddOffsetsToTxnRequest) -> Any:
        found = self.check(request.transactional_id, request.producer_id, request.producer_epoch)
        if isinstance(found, ErrorCode):
            return aot.AddOffsetsToTxnResponse(error_code=int(found))
        found.is_open = True
        found.groups[request.group_id] = None
        return aot.AddOffsetsToTxnResponse()

    def commit_offsets(self, node: FakeNode, request: toc.TxnOffsetCommitRequest) -> Any:
        found = self.check(request.transactional_id, request.producer_id, request.producer_epoch)
        code = found if isinstance(found, ErrorCode) else ErrorCode.NONE
        if isinstance(found, FakeTransaction):
            if self.version >= 2:
                found.is_open = True
            elif request.group_id not in found.groups:
                code = ErrorCode.INVALID_TXN_STATE
            for topic in request.topics:
                for one in topic.partitions:
                    where = TopicPartition(topic.name, one.partition_index)
                    found.offsets[request.group_id, where] = one.committed_offset
        return toc.TxnOffsetCommitResponse(
            topics=[
                toc.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        toc.TxnOffsetCommitResponsePartition(
                            partition_index=one.partition_index, error_code=int(code)
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def end_txn(self, node: FakeNode, request: et.EndTxnRequest) -> Any:
        found = self.transactions[request.transactional_id]
        asked = (request.producer_epoch, request.committed)
        if self.version < 2:
            code = self.check(request.transactional_id, request.producer_id, asked[0])
            if isinstance(code, ErrorCode):
                return et.EndTxnResponse(error_code=int(code))
            if not found.is_open and found.last_end != asked:
                return et.EndTxnResponse(error_code=int(ErrorCode.INVALID_TXN_STATE))
            if found.is_open:
                self.end(found, commit=request.committed)
            return et.EndTxnResponse()
        if found.last_end != asked or found.epoch != asked[0] + 1:
            if found.epoch != request.producer_epoch:
                return et.EndTxnResponse(error_code=int(ErrorCode.PRODUCER_FENCED))
            if not found.is_open and request.committed:
                return et.EndTxnResponse(error_code=int(ErrorCode.INVALID_TXN_STATE))
            self.end(found, commit=request.committed)
            found.epoch += 1
        return et.EndTxnResponse(producer_id=found.producer_id, producer_epoch=found.epoch)

    def produce(self, node: FakeNode, request: pr.ProduceRequest) -> Any:
        if request.transactional_id is not None:
            found = self.transactions[request.transactional_id]
            for topic in request.topic_data:
                known = self.cluster.find(topic.name, topic.topic_id)
                for data in topic.partition_data:
                    assert known is not None
                    where = TopicPartition(known.name, data.index)
                    if self.version >= 2:
                        found.is_open = True
                        found.partitions[where] = None
                    elif where not in found.partitions:
                        return fake_broker.refuse_produce(request, ErrorCode.INVALID_TXN_STATE)
        return fake_broker.produce(node, request)

    def api_versions(self, node: FakeNode, request: av.ApiVersionsRequest) -> Any:
        response = fake_broker.api_versions(node, request)
        level = av.FinalizedFeatureKey(
            name="transaction.version", max_version_level=self.version, min_version_level=0
        )
        response.finalized_features = [level]
        return response


def install(
    monkeypatch: pytest.MonkeyPatch, version: int, nodes: int = 1
) -> tuple[FakeCluster, FakeCoordinator]:
    """Make a cluster whose brokers know transactions, of this transaction.version."""
    keys: dict[int, str] = {
        ApiKey.FIND_COORDINATOR: "find",
        ApiKey.INIT_PRODUCER_ID: "init",
        ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions",
        ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets",
        ApiKey.TXN_OFFSET_COMMIT: "commit_offsets",
        ApiKey.END_TXN: "end_txn",
        ApiKey.PRODUCE: "produce",
        ApiKey.API_VERSIONS: "api_versions",
    }
    for key in keys:
        monkeypatch.setitem(fake_broker.HANDLERS, key, fake_broker.HANDLERS.get(key))
    cluster = FakeCluster(nodes)
    coordinator = FakeCoordinator(cluster, version)
    for key, name in keys.items():
        monkeypatch.setitem(fake_broker.HANDLERS, key, getattr(coordinator, name))
    if version < 2:
        cluster.versions[ApiKey.END_TXN] = (0, 4)
        cluster.versions[ApiKey.TXN_OFFSET_COMMIT] = (0, 4)
    return cluster, coordinator
