"""The admin of groups, transactions and logs, against scripted brokers."""

from collections.abc import Callable
from typing import Any

import pytest

from minikafka.aio import Admin, ConfigResource, OpenTransaction, TopicPartition
from minikafka.client.admin.group_types import GroupListing
from minikafka.client.admin.log_types import TopicPartitionReplica
from minikafka.client.admin.transaction_types import TransactionListing
from minikafka.client.errors import AdminError, RequestTimedOut
from minikafka.client.group_types import OffsetAndMetadata
from minikafka.protocol.api import ApiKey
from minikafka.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    encode_assignment,
)
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages import alter_configs as ac
from minikafka.protocol.messages import alter_replica_log_dirs as mv
from minikafka.protocol.messages import delete_groups as dg
from minikafka.protocol.messages import delete_records as dr
from minikafka.protocol.messages import describe_configs as dc
from minikafka.protocol.messages import describe_groups as ds
from minikafka.protocol.messages import describe_log_dirs as ld
from minikafka.protocol.messages import find_coordinator as fc
from minikafka.protocol.messages import leave_group as lg
from minikafka.protocol.messages import list_config_resources as lc
from minikafka.protocol.messages import list_groups as ls
from minikafka.protocol.messages import list_transactions as lt
from minikafka.protocol.messages import offset_commit as oc
from minikafka.protocol.messages import offset_fetch as of
from minikafka.protocol.messages import write_txn_markers as wtm

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

Serve = Callable[[ApiKey, Callable[[FakeNode, Any], object]], None]
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Have brokers answer an API in this way; broker 2 coordinates everything."""

    def install(key: ApiKey, answer: Callable[[FakeNode, Any], object]) -> None:
        monkeypatch.setitem(fake_broker.HANDLERS, key, answer)

    def find(node: FakeNode, request: fc.FindCoordinatorRequest) -> fc.FindCoordinatorResponse:
        where = node.cluster.nodes[max(node.cluster.nodes)]
        return fc.FindCoordinatorResponse(
            coordinators=[
                fc.Coordinator(key=key, node_id=where.node_id, host="127.0.0.1", port=where.port)
                for key in request.coordinator_keys
            ]
        )

    install(ApiKey.FIND_COORDINATOR, find)
    return install


def admin_of(cluster: FakeCluster, **settings: Any) -> Admin:
    settings.setdefault("retry_backoff_ms", 1)
    return Admin(cluster.bootstrap, **settings)


async def test_groups_of_all_brokers_are_listed(serve: Serve) -> None:
    def answer(node: FakeNode, request: ls.ListGroupsRequest) -> ls.ListGroupsResponse:
        listed = ls.ListedGroup(
            group_id=f"g{3 - node.node_id}",
            protocol_type="consumer",
            group_state="Empty",
            group_type="classic",
        )
        return ls.ListGroupsResponse(groups=[listed])

    serve(ApiKey.LIST_GROUPS, answer)
    async with FakeCluster(2) as cluster, admin_of(cluster) as admin:
        found = await admin.list_groups(states=["Empty"], types=["classic"])
        assert found == [
            GroupListing(f"g{number}", "consumer", "Empty", "classic") for number in (1, 2)
        ]
        request: ls.ListGroupsRequest = cluster.sent(ApiKey.LIST_GROUPS)[0]
        assert (request.states_filter, request.types_filter) == (["Empty"], ["classic"])


async def test_a_group_is_described_at_its_coordinator(serve: Serve) -> None:
    encoded = encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=[TopicPartitions(topic="a", partitions=[1])])
    )
    busy = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]

    def answer(node: FakeNode, request: ds.DescribeGroupsRequest) -> ds.DescribeGroupsResponse:
        assert node.node_id == 2
        (name,) = request.groups
        if busy:
            code = int(busy.pop())
            return ds.DescribeGroupsResponse(
                groups=[ds.DescribedGroup(group_id=name, error_code=code)]
            )
        if name == "nobody":
            refused = ds.DescribedGroup(
                group_id=name, error_code=int(ErrorCode.GROUP_ID_NOT_FOUND), error_message="no"
            )
            return ds.DescribeGroupsResponse(groups=[refused])
        member = ds.DescribedGroupMember(
            member_id="m", client_id="c", client_host="/1.2.3.4", member_assignment=encoded
        )
        found = ds.DescribedGroup(
            group_id=name,
            group_state="Stable",
            protocol_type="consumer" if name == "g" else "connect",
            protocol_data="range",
            members=[member],
        )
        return ds.DescribeGroupsResponse(groups=[found])

    serve(ApiKey.DESCRIBE_GROUPS, answer)
    async with FakeCluster(2) as cluster, admin_of(cluster) as admin:
        found = (await admin.describe_groups(["g"]))["g"]
        assert (found.state, found.protocol, found.coordinator_id) == ("Stable", "range", 2)
        assert found.members[0].assignment == (A1,)
        workers = (await admin.describe_groups(["workers"]))["workers"]
        assert workers.members[0].assignment == (), "these bytes are of another protocol"
        with pytest.raises(AdminError) as caught:
            await admin.describe_groups(["g", "nobody"])
        assert list(caught.value.errors) == ["nobody"]


async def test_groups_are_deleted_each_on_its_own(serve: Serve) -> None:
    def answer(node: FakeNode, request: dg.DeleteGroupsRequest) -> dg.DeleteGroupsResponse:
        (name,) = request.groups_names
        code = int(ErrorCode.NON_EMPTY_GROUP) if name == "busy" else 0
        return dg.DeleteGroupsResponse(
            results=[dg.DeletableGroupResult(group_id=name, error_code=code)]
        )

    serve(ApiKey.DELETE_GROUPS, answer)
    async with FakeCluster() as cluster, admin_of(cluster) as admin:
        await admin.delete_groups(["g"])
        with pytest.raises(AdminError, match="NON_EMPTY_GROUP"):
            await admin.delete_groups(["g", "busy"])


@pytest.mark.parametrize("version", [1, 7, 9])
async def test_offsets_are_asked_for_in_every_shape(serve: Serve, version: int) -> None:
    def answer(node: FakeNode, request: of.OffsetFetchRequest) -> of.OffsetFetchResponse:
        at = {"committed_offset": 5, "metadata": "n", "committed_leader_epoch": 2}
        none = of.OffsetFetchResponsePartitions(partition_index=1)
        one = of.OffsetFetchResponsePartitions(partition_index=0, **at)  # type: ignore[arg-type]
        topics = [of.OffsetFetchResponseTopics(name="a", partitions=[one, none])]
        if version >= 8:
            group = of.OffsetFetchResponseGroup(group_id="g", topics=topics)
            return of.OffsetFetchResponse(groups=[group])
        return of.OffsetFetchResponse(topics=topics)

    serve(ApiKey.OFFSET_FETCH, answer)
    async with FakeCluster() as cluster, admin_of(cluster) as admin:
        cluster.versions[ApiKey.OFFSET_FETCH] = (1, version)
        found = await admin.list_group_offsets("g", [A0, A1])
        assert found == {A0: OffsetAndMetadata(5, "n", 2 if version >= 5 else -1)}


async def test_offsets_are_altered_and_refusals_named(serve: Serve) -> None:
    def answer(node: FakeNode, request: oc.OffsetCommitRequest) -> oc.OffsetCommitResponse:
        (topic,) = request.topics
        codes = {1: int(ErrorCode.UNKNOWN_MEMBER_ID)}
        return oc.OffsetCommitResponse(
            topics=[
                oc.OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        oc.OffsetCommitResponsePartition(
                            partition_index=one.partition_index,
                            error_code=codes.get(one.partition_index, 0),
                        )
                        for one in topic.partitions
                    ],
                )
            ]
        )

    serve(ApiKey.OFFSET_COMMIT, answer)
    async with FakeCluster() as cluster, admin_of(cluster) as admin:
        await admin.alter_group_offsets("g", {A0: 7})
        with pytest.raises(AdminError) as caught:
            await admin.alter_group_offsets("g", {A0: 7, A1: OffsetAndMetadata(8)})
        assert list(caught.value.errors) == ["a-1"]
        request: oc.OffsetCommitRequest = cluster.sent(ApiKey.OFFSET_COMMIT)[0]
        assert (request.generation_id_or_member_epoch, request.member_id) == (-1, "")


async def test_static_members_are_sent_away(serve: Serve) -> None:
    def answer(node: FakeNode, request: lg.LeaveGroupRequest) -> lg.LeaveGroupResponse:
        return lg.LeaveGroupResponse(
            members=[
                lg.MemberResponse(
                    member_id="",
                    group_instance_id=one.group_instance_id,
                    error_code=int(ErrorCode.UNKNOWN_MEMBER_ID)
                    if one.group_instance_id == "i9"
                    else 0,
                )
                for one in request.members
            ]
        )

    serve(ApiKey.LEAVE_GROUP, answer)
    async with FakeCluster() as cluster, admin_of(cluster) as admin:
        await admin.remove_members("g", instance_ids=["i1"], reason="it hangs")
        with pytest.raises(AdminError, match="i9: UNKNOWN_MEMBER_ID"):
            await admin.remove_members("g", instance_ids=["i1", "i9"])
        request: lg.LeaveGroupRequest = cluster.sent(ApiKey.LEAVE_GROUP)[0]
        assert request.members[0].reason == "it hangs"


async def test_transactions_of_all_brokers_are_listed(serve: Serve) -> None:
    left = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

    def answer(node: FakeNode, request: lt.ListTransactionsRequest) -> lt.ListTransactionsResponse:
        if left:
            return lt.ListTransactionsResponse(error_code=int(left.pop()))
        one = lt.TransactionState(
            transactional_id=f"t{node.node_id}", producer_id=7, transaction_state="Ongoing"
        )
        return lt.ListTransactionsResponse(transaction_states=[one])

    serve(ApiKey.LIST_TRANSACTIONS, answer)
    async with FakeCluster(2) as cluster, admin_of(cluster) as admin:
        assert await admin.list_transactions(states=["Ongoing"], longer_than_ms=5) == [
            TransactionListing("t1", 1, 7, "Ongoing"),
            TransactionListing("t2", 2, 7, "Ongoing"),
        ]


async def test_a_marker_goes_to_the_leader_wherever_it_is(serve: Serve) -> None:
    def answer(node: FakeNode, request: wtm.WriteTxnMarkersRequest) -> wtm.WriteTxnMarkersResponse:
        (marker,) = request.markers
        assert not marker.transaction_result
        part = node.cluster.topics["a"].partitions[0]
        code = 0 if part.leader == node.node_id else int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if node.node_id == 1:
            node.cluster.move("a", 0, 2)
        result = wtm.WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
        topic = wtm.WritableTxnMarkerTopicResult(name="a", partitions=[result])
        done = wtm.WritableTxnMarkerResult(producer_id=marker.producer_id, topics=[topic])
        if node.node_id == 1:
            result.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return wtm.WriteTxnMarkersResponse(markers=[done])

    serve(ApiKey.WRITE_TXN_MARKERS, answer)
    async with FakeCluster(2) as cluster, admin_of(cluster) as admin:
        cluster.create("a")
        await admin.abort_transaction(OpenTransaction(A0, 7, 3, 2))
        sent = [node for node, key, _ in cluster.requests if key == ApiKey.WRITE_TXN_MARKERS]
        assert sent == [1, 2]


async def test_records_are_deleted_and_refusals_named(serve: Serve) -> None:
    def answer(node: FakeNode, request: dr.DeleteRecordsRequest) -> dr.DeleteRecordsResponse:
        topics = []
        for topic in request.topics:
            ones = []
            for one in topic.partitions:
                is_too_far = one.offset > 100
                ones.append(
                    dr.DeleteRecordsPartitionResult(
                        partition_index=one.partition_index,
                        low_watermark=-1 if is_too_far else one.offset,
                        error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE) if is_too_far else 0,
                    )
                )
            topics.append(dr.DeleteRecordsTopicResult(name=topic.name, partitions=ones))
        return dr.DeleteRecordsResponse(topics=topics)

    serve(ApiKey.DELETE_RECORDS, answer)
    async with FakeCluster(2) as cluster, admin_of(cluster) as admin:
        cluster.create("a", 2)
        assert await admin.delete_records({A0: 5, A1: 0}) == {A0: 5, A1: 0}
        with pytest.raises(AdminError, match="a-1: OFFSET_OUT_OF_RANGE"):
            await admin.delete_records({A0: 5, A1: 500})


async def test_directories_of_all_brokers_are_described(serve: Serve) -> None:
    def answer(node: FakeNode, request: ld.DescribeLogDirsRequest) -> ld.DescribeLogDirsResponse:
        replica = ld.DescribeLogDirsPartition(partition_index=0, partition_size=9, offset_lag=1)
        good = ld.DescribeLogDirsResult(
            log_dir="/d",
            topics=[ld.DescribeLogDirsTopic(name="a", partitions=[replica])],
            total_bytes=100,
        )
        lost = ld.DescribeLogDirsResult(log_dir="/e", error_code=int(ErrorCode.KAFKA_STORAGE_ERROR))
        return ld.DescribeLogDirsResponse(results=[good, lost])

    serve(ApiKey.DESCRIBE_LOG_DIRS, answer)
    async with FakeCluster(2) as cluster, admin_of(cluster) as admin:
        found = await admin.describe_log_dirs()
        assert list(found) == [1, 2]
        good, lost = found[1]["/d"], found[1]["/e"]
        assert (good.replicas[A0].size, good.total_bytes, good.usable_bytes) == (9, 100, None)
        assert isinstance(lost.error, ApiError)
        assert list(await admin.describe_log_dirs([2], [A0])) == [2]
        request: ld.DescribeLogDirsRequest = cluster.sent(ApiKey.DESCRIBE_LOG_DIRS)[-1]
        assert request.topics is not None
        assert request.topics[0].partitions == [0]


async def test_replicas_are_asked_to_move_at_their_brokers(serve: Serve) -> None:
    def answer(node: FakeNode, request: mv.AlterReplicaLogDirsRequest) -> object:
        error = ErrorCode.NONE if node.node_id == 1 else ErrorCode.LOG_DIR_NOT_FOUND
        rows = [
            mv.AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    mv.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                    for index in topic.partitions
                ],
            )
            for each in request.dirs
            for topic in each.topics
        ]
        return mv.AlterReplicaLogDirsResponse(results=rows)

    serve(ApiKey.ALTER_REPLICA_LOG_DIRS, answer)
    moves = {
        TopicPartitionReplica("a", 0, 1): "/d",
        TopicPartitionReplica("a", 1, 1): "/d",
        TopicPartitionReplica("b", 0, 1): "/e",
    }
    async with FakeCluster(2) as cluster, admin_of(cluster) as admin:
        await admin.alter_replica_log_dirs(moves)
        (request,) = cluster.sent(ApiKey.ALTER_REPLICA_LOG_DIRS)
        asked = {
            each.path: [(topic.name, topic.partitions) for topic in each.topics]
            for each in request.dirs
        }
        assert asked == {"/d": [("a", [0, 1])], "/e": [("b", [0])]}
        with pytest.raises(AdminError, match="a-0-2: LOG_DIR_NOT_FOUND"):
            await admin.alter_replica_log_dirs(moves | {TopicPartitionReplica("a", 0, 2): "/d"})


async def test_whole_configurations_are_replaced_and_listed(serve: Serve) -> None:
    topic, broker = ConfigResource.topic("a"), ConfigResource.broker(1)

    def alter(node: FakeNode, request: ac.AlterConfigsRequest) -> ac.AlterConfigsResponse:
        return ac.AlterConfigsResponse(
            responses=[
                ac.AlterConfigsResourceResponse(
                    error_code=int(ErrorCode.INVALID_CONFIG) if one.resource_name == "1" else 0,
                    error_message="no",
                    resource_type=one.resource_type,
                    resource_name=one.resource_name,
                )
                for one in request.resources
            ]
        )

    def listing(node: FakeNode, request: object) -> lc.ListConfigResourcesResponse:
        found = [lc.ConfigResource(resource_name="a", resource_type=dc.ResourceType.TOPIC)]
        return lc.ListConfigResourcesResponse(config_resources=found)

    serve(ApiKey.ALTER_CONFIGS, alter)
    serve(ApiKey.LIST_CONFIG_RESOURCES, listing)
    async with FakeCluster() as cluster, admin_of(cluster) as admin:
        await admin.alter_configs({topic: {"retention.ms": "5"}}, validate_only=True)
        with pytest.raises(AdminError) as caught:
            await admin.alter_configs({topic: {}, broker: {"x": "y"}})
        assert list(caught.value.errors) == [str(broker)]
        assert await admin.list_config_resources() == [topic]
        assert cluster.sent(ApiKey.ALTER_CONFIGS)[0].validate_only


async def test_a_coordinator_that_never_answers_is_a_deadline(serve: Serve) -> None:
    def answer(node: FakeNode, request: dg.DeleteGroupsRequest) -> dg.DeleteGroupsResponse:
        code = int(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return dg.DeleteGroupsResponse(
            results=[dg.DeletableGroupResult(group_id="g", error_code=code)]
        )

    serve(ApiKey.DELETE_GROUPS, answer)
    async with FakeCluster() as cluster, admin_of(cluster, default_api_timeout_ms=100) as admin:
        with pytest.raises(RequestTimedOut, match="group g: not done in 100 ms"):
            await admin.delete_groups(["g"])
