"""Elections, reassignments, quorum and features, as an admin asks for them."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.aio import Admin, ElectionType, FeatureUpdate, TopicPartition, UpgradeType
from minikafka.client.admin import sync_admin
from minikafka.client.admin.cluster_types import FeatureLevels, QuorumReplica
from minikafka.client.admin.replica_types import ReplicaRead
from minikafka.client.admin.topic_types import Reassignment
from minikafka.client.errors import AdminError, UnsupportedVersion
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode, LocalProtocolError
from minikafka.protocol.messages import alter_partition_reassignments as apr
from minikafka.protocol.messages import api_versions as av
from minikafka.protocol.messages import describe_quorum as dq
from minikafka.protocol.messages import elect_leaders as el
from minikafka.protocol.messages import list_partition_reassignments as lpr
from minikafka.protocol.messages import unregister_broker as ub
from minikafka.protocol.messages import update_features as uf
from minikafka.protocol.records.record_batch import NewRecord, build, read_header

from . import fake_broker
from .fake_broker import FakeCluster

Serve = Callable[..., None]
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Let brokers answer an API with these responses in turn, the last one for ever."""

    def install(key: ApiKey, *responses: object) -> None:
        left = list(responses)

        def answer(node: object, request: object) -> object:
            return left.pop(0) if len(left) > 1 else left[0]

        monkeypatch.setitem(fake_broker.HANDLERS, key, answer)

    return install


def elected(topic: str, *results: tuple[int, ErrorCode]) -> el.ReplicaElectionResult:
    return el.ReplicaElectionResult(
        topic=topic,
        partition_result=[
            el.PartitionResult(partition_id=index, error_code=code, error_message=code.name)
            for index, code in results
        ],
    )


async def test_elections_are_told_one_by_one(serve: Serve) -> None:
    needless = ErrorCode.ELECTION_NOT_NEEDED
    results = [elected("a", (0, ErrorCode.NONE), (1, needless)), elected("b", (0, ErrorCode.NONE))]
    serve(ApiKey.ELECT_LEADERS, el.ElectLeadersResponse(replica_election_results=results))
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        found = await admin.elect_leaders(ElectionType.UNCLEAN, [A0, A1, ("b", 0)])
        (sent,) = cluster.sent(ApiKey.ELECT_LEADERS)
    assert {where: error and error.code for where, error in found.items()} == {
        A0: None,
        A1: needless,
        B0: None,
    }
    assert sent.election_type == ElectionType.UNCLEAN
    assert [(one.topic, one.partitions) for one in sent.topic_partitions] == [
        ("a", [0, 1]),
        ("b", [0]),
    ]


async def test_an_election_of_all_is_asked_again_of_another_controller(serve: Serve) -> None:
    refused = el.ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER)
    serve(ApiKey.ELECT_LEADERS, refused, el.ElectLeadersResponse())
    async with FakeCluster() as cluster, Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        assert await admin.elect_leaders(ElectionType.PREFERRED) == {}
        assert [one.topic_partitions for one in cluster.sent(ApiKey.ELECT_LEADERS)] == [None, None]


async def test_arguments_that_no_request_can_carry_are_refused_at_once(serve: Serve) -> None:
    serve(ApiKey.ELECT_LEADERS, el.ElectLeadersResponse())
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(LocalProtocolError, match="ElectLeadersRequest"):
            await admin.elect_leaders([A0])  # type: ignore[arg-type]
        assert cluster.sent(ApiKey.ELECT_LEADERS) == []


async def test_an_old_broker_elects_preferred_leaders_only(serve: Serve) -> None:
    serve(ApiKey.ELECT_LEADERS, el.ElectLeadersResponse())
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.ELECT_LEADERS] = (0, 0)
        async with Admin(cluster.bootstrap, retry_backoff_ms=1, default_api_timeout_ms=50) as admin:
            assert await admin.elect_leaders(ElectionType.PREFERRED, [A0]) == {}
            with pytest.raises(UnsupportedVersion, match="elects preferred leaders only"):
                await admin.elect_leaders(ElectionType.UNCLEAN, [A0])


async def test_reassignments_begin_and_are_cancelled_and_refusals_are_named(serve: Serve) -> None:
    def answer(code: ErrorCode) -> apr.AlterPartitionReassignmentsResponse:
        refused = apr.ReassignablePartitionResponse(
            partition_index=1, error_code=code, error_message="no such broker"
        )
        done = apr.ReassignablePartitionResponse(partition_index=0)
        topics = [apr.ReassignableTopicResponse(name="a", partitions=[done, refused])]
        return apr.AlterPartitionReassignmentsResponse(responses=topics)

    serve(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        answer(ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        answer(ErrorCode.NONE),
    )
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(AdminError, match=r"a-1: .*no such broker") as caught:
            await admin.alter_partition_reassignments({A0: [1, 2], A1: [9]})
        await admin.alter_partition_reassignments({A0: None, A1: None})
        first, second = cluster.sent(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    assert list(caught.value.errors) == ["a-1"]
    assert [one.replicas for one in first.topics[0].partitions] == [[1, 2], [9]]
    assert [one.replicas for one in second.topics[0].partitions] == [None, None]


async def test_reassignments_are_listed(serve: Serve) -> None:
    moving = lpr.OngoingPartitionReassignment(
        partition_index=1, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
    )
    topics = [lpr.OngoingTopicReassignment(name="a", partitions=[moving])]
    serve(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, lpr.ListPartitionReassignmentsResponse(topics=topics)
    )
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        found = await admin.list_partition_reassignments()
        await admin.list_partition_reassignments([A1])
        asked = [one.topics for one in cluster.sent(ApiKey.LIST_PARTITION_REASSIGNMENTS)]
    assert found == {A1: Reassignment((1, 2, 3), (3,), (1,))}
    assert found[A1].target == (2, 3)
    assert asked[0] is None
    assert [(one.name, one.partition_indexes) for one in asked[1]] == [("a", [1])]


def quorum(version: int) -> dq.DescribeQuorumResponse:
    voters = [
        dq.ReplicaState(
            replica_id=3001 + n,
            replica_directory_id=bytes([n] * 16) if version >= 2 else bytes(16),
            log_end_offset=100 - n,
            last_fetch_timestamp=-1 if n == 0 else 5000,
        )
        for n in range(2)
    ]
    observer = dq.ReplicaState(replica_id=1, log_end_offset=-1)
    partition = dq.QuorumPartitionData(
        partition_index=0,
        leader_id=3001,
        leader_epoch=4,
        high_watermark=99,
        current_voters=voters,
        observers=[observer],
    )
    listener = dq.QuorumListener(name="CONTROLLER", host="h", port=9093)
    return dq.DescribeQuorumResponse(
        topics=[dq.QuorumTopicData(topic_name="__cluster_metadata", partitions=[partition])],
        nodes=[dq.QuorumNode(node_id=3001, listeners=[listener])],
    )


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_quorum_is_described_in_every_version(serve: Serve, version: int) -> None:
    serve(ApiKey.DESCRIBE_QUORUM, quorum(version))
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.DESCRIBE_QUORUM] = (0, version)
        async with Admin(cluster.bootstrap) as admin:
            found = await admin.describe_metadata_quorum()
    assert (found.leader_id, found.leader_epoch, found.high_watermark) == (3001, 4, 99)
    assert found.leader_log_end_offset == 100
    assert [voter.log_end_offset for voter in found.voters] == [100, 99]
    assert found.voters[1].last_fetch_timestamp == (5000 if version else None)
    assert found.observers == (QuorumReplica(1, "AAAAAAAAAAAAAAAAAAAAAA", -1),)
    assert found.endpoints == ({3001: ("CONTROLLER://h:9093",)} if version == 2 else {})


async def test_a_partition_that_cannot_be_described_is_an_error(serve: Serve) -> None:
    partition = dq.QuorumPartitionData(
        partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message="what?"
    )
    topic = dq.QuorumTopicData(topic_name="__cluster_metadata", partitions=[partition])
    serve(ApiKey.DESCRIBE_QUORUM, dq.DescribeQuorumResponse(topics=[topic]))
    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        with pytest.raises(ApiError, match="what"):
            await admin.describe_metadata_quorum()


async def test_features_are_described(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    usual: Any = fake_broker.api_versions

    def with_features(node: Any, request: Any) -> av.ApiVersionsResponse:
        response: av.ApiVersionsResponse = usual(node, request)
        supported = av.SupportedFeatureKey(name="f", min_version=0, max_version=2)
        response.supported_features = [supported]
        finalized = av.FinalizedFeatureKey(name="f", max_version_level=1, min_version_level=1)
        response.finalized_features = [finalized]
        response.finalized_features_epoch = 7
        return response

    async with FakeCluster() as cluster, Admin(cluster.bootstrap) as admin:
        none = await admin.describe_features()
        monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.API_VERSIONS, with_features)
        found = await admin.describe_features()
    assert (none.finalized, none.supported, none.epoch) == ({}, {}, None)
    assert (found.finalized, found.supported) == ({"f": 1}, {"f": FeatureLevels(0, 2)})
    assert found.epoch == 7


@pytest.mark.parametrize(("version", "named"), [(0, "f"), (1, "f"), (2, "f, g")])
async def test_a_refused_feature_is_named_as_far_as_the_version_can(
    serve: Serve, version: int, named: str
) -> None:
    refused = ErrorCode.INVALID_UPDATE_VERSION
    results = [
        uf.UpdatableFeatureResult(feature="f", error_code=refused, error_message="too high"),
        uf.UpdatableFeatureResult(feature="g"),
    ]
    serve(
        ApiKey.UPDATE_FEATURES,
        uf.UpdateFeaturesResponse(error_code=refused, error_message="f: too high", results=results),
    )
    async with FakeCluster() as cluster:
        cluster.versions[ApiKey.UPDATE_FEATURES] = (0, version)
        async with Admin(cluster.bootstrap) as admin:
            with pytest.raises(AdminError, match="too high") as caught:
                await admin.update_features(
                    {"f": FeatureUpdate(9), "g": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)}
                )
        (sent,) = cluster.sent(ApiKey.UPDATE_FEATURES)
    assert list(caught.value.errors) == [named]
    allowed = [(one.allow_downgrade, one.upgrade_type) for one in sent.feature_updates]
    assert allowed == ([(False, 1), (True, 1)] if version == 0 else [(False, 1), (False, 2)])


async def test_features_are_updated_once_the_controller_is_found(serve: Serve) -> None:
    away = uf.UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER)
    serve(ApiKey.UPDATE_FEATURES, away, uf.UpdateFeaturesResponse())
    async with FakeCluster() as cluster, Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        await admin.update_features({"f": FeatureUpdate(1)}, validate_only=True)
        assert [one.validate_only for one in cluster.sent(ApiKey.UPDATE_FEATURES)] == [True, True]


async def test_a_broker_that_does_not_tell_its_versions_spoils_no_other() -> None:
    async with (
        FakeCluster() as cluster,
        Admin(cluster.bootstrap, default_api_timeout_ms=1000) as admin,
    ):
        found = await admin.describe_api_versions([1, 77])
    assert isinstance(found[1], dict)
    assert found[1][ApiKey.METADATA].last > 0
    assert isinstance(found[77], ApiError)
    assert found[77].code is ErrorCode.REQUEST_TIMED_OUT


async def test_a_broker_is_unregistered_once_the_controller_is_found(serve: Serve) -> None:
    away = ub.UnregisterBrokerResponse(error_code=ErrorCode.NOT_CONTROLLER)
    unknown = ub.UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="Broker ID 7 is not"
    )
    serve(ApiKey.UNREGISTER_BROKER, away, ub.UnregisterBrokerResponse(), unknown)
    async with FakeCluster() as cluster, Admin(cluster.bootstrap, retry_backoff_ms=1) as admin:
        await admin.unregister_broker(7)
        with pytest.raises(ApiError, match="Broker ID 7 is not"):
            await admin.unregister_broker(7)
        assert [one.broker_id for one in cluster.sent(ApiKey.UNREGISTER_BROKER)] == [7, 7, 7]


def test_the_sync_admin_has_every_method_of_its_twin_with_the_same_arguments() -> None:
    ours = methods_of(sync_admin.Admin)
    theirs = methods_of(Admin)
    theirs.pop("start")
    assert ours == theirs


def test_both_faces_of_the_admin_show_the_docstrings_of_what_they_call() -> None:
    members = [one for one in vars(Admin).values() if inspect.isfunction(one)]
    calls = [one for one in members if one.__module__ != Admin.__module__]
    assert len(calls) > 30
    for theirs in calls:
        ours = getattr(sync_admin.Admin, theirs.__name__)
        called = getattr(sys.modules[theirs.__module__], theirs.__name__)
        assert ours.__doc__ == theirs.__doc__ == called.__doc__
        for method in (inspect.unwrap(ours), inspect.unwrap(theirs)):
            first, *others = inspect.signature(method).parameters.values()
            assert first.name == "self"
            assert others == list(inspect.signature(called).parameters.values())[1:]
        assert inspect.iscoroutinefunction(inspect.unwrap(theirs))
        assert not inspect.iscoroutinefunction(inspect.unwrap(ours))


def methods_of(cls: type) -> dict[str, dict[str, tuple[object, object]]]:
    return {
        name: {
            parameter.name: (parameter.kind, parameter.default)
            for parameter in inspect.signature(member).parameters.values()
        }
        for name, member in inspect.getmembers(cls, callable)
        if not name.startswith("_")
    }


async def test_replicas_are_read_from_their_own_brokers() -> None:
    async with FakeCluster(2) as cluster, Admin(cluster.bootstrap) as admin:
        partition = cluster.create("a").partitions[0]
        partition.append(build([NewRecord(1, None, b"v")]))
        found = await admin.read_replicas({A0: 0}, {A0: [1, 2, 9]}, max_bytes=1000, max_wait_ms=1)
        sent = cluster.sent(ApiKey.FETCH)
    assert [one.replica_id for one in sent] == [-2, -2]
    assert [one.topics[0].partitions[0].partition_max_bytes for one in sent] == [1000, 1000]
    whole = found[A0].pop(1)
    assert isinstance(whole, ReplicaRead)
    assert (whole.high_watermark, read_header(whole.data).record_count) == (1, 1)
    codes = {broker: one.code for broker, one in found[A0].items() if isinstance(one, ApiError)}
    assert codes == {2: ErrorCode.NOT_LEADER_OR_FOLLOWER, 9: ErrorCode.NETWORK_EXCEPTION}
