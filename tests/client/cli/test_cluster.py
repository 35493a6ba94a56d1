"""`cluster`, `broker-api-versions`: what they print, character by character as Kafka's tools do."""

import pytest

from minikafka.client.admin.cluster_types import BrokerDescription, MetadataQuorum
from minikafka.client.cli.broker_api_versions import BETWEEN_NODES, broker_lines
from minikafka.client.cli.cluster import controller_lines
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.schema import Versions

from .conftest import Run
from .fake_admin import FakeAdmin

AT = ("--bootstrap-server", "localhost:9092")
CLUSTER = ("cluster", *AT)
LISTED = (
    "ID         HOST PORT       RACK STATE      ENDPOINT_TYPE  \n"
    "1          h 9093       a    unfenced   broker         \n"
    "2          h 9094       a-02 unfenced   broker         \n"
)
WITH_FENCED = f"{LISTED}3          h 9095       null fenced     broker         \n"
APIS_OF_KAFKA = """\
127.0.0.1:29192 (id: 1 rack: null isFenced: false) -> (
	Produce(0): 0 to 13 [usable: 13],
	Fetch(1): 4 to 18 [usable: 18],
	ListOffsets(2): 1 to 11 [usable: 11],
	Metadata(3): 0 to 13 [usable: 13],
"""
END_OF_KAFKA = """\
	StreamsGroupDescribe(89): UNSUPPORTED,
	DescribeShareGroupOffsets(90): UNSUPPORTED,
	AlterShareGroupOffsets(91): UNSUPPORTED,
	DeleteShareGroupOffsets(92): UNSUPPORTED
)"""

# -- cluster


def test_the_id_of_a_cluster(run: Run, admin: FakeAdmin) -> None:
    assert run(*CLUSTER, "cluster-id") == (0, "Cluster ID: a-cluster\n", "")


@pytest.mark.parametrize(("flags", "table"), [((), LISTED), (("--include-fenced-brokers",), None)])
def test_endpoints_of_brokers(
    run: Run, admin: FakeAdmin, flags: tuple[str, ...], table: str | None
) -> None:
    admin.racks = {1: "a", 2: "a-02", 3: None}
    admin.fenced = [3]
    assert run(*CLUSTER, "list-endpoints", *flags) == (0, table or WITH_FENCED, "")


def test_endpoints_of_controllers() -> None:
    """As Kafka's tool prints them, two blanks at the end of the header included."""
    endpoints = {3001: ("CONTROLLER://127.0.0.1:29193",), 3002: ("CONTROLLER://[::1]:29193",)}
    quorum = MetadataQuorum(3001, 4, 10, (), endpoints=endpoints)
    assert controller_lines(quorum) == [
        "ID         HOST      PORT       RACK       ENDPOINT_TYPE  ",
        "3001       127.0.0.1 29193      null       controller     ",
        "3002       [::1]     29193      null       controller     ",
    ]


def test_a_broker_is_unregistered(run: Run, admin: FakeAdmin) -> None:
    admin.fenced = [3]
    done = (0, "Broker 3 is no longer registered.\n", "")
    assert run(*CLUSTER, "unregister", "--id", 3) == done
    assert admin.asked == [("unregister", 3)]


def test_who_unregisters_a_broker_in_service_is_warned(run: Run, admin: FakeAdmin) -> None:
    code, out, err = run(*CLUSTER, "unregister", "-i", 2)
    assert (code, out) == (0, "Broker 2 is no longer registered.\n")
    assert err == ("WARNING: Broker 2 was in service, and registers again unless it is stopped\n")


def test_a_broker_that_nobody_knows_cannot_be_unregistered(run: Run, admin: FakeAdmin) -> None:
    code, out, err = run(*CLUSTER, "unregister", "--id", 77)
    assert (code, out) == (1, "")
    assert err == (
        "Error while executing cluster command: Broker ID 77 is not currently registered\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*AT, "unregister"), "--id is needed by unregister"),
        ((*AT, "cluster-id", "--id", "1"), "--id is needed by unregister, and by nothing else"),
        ((*AT, "unregister", "--id", "-1"), "-1 is not in the range"),
        (("cluster-id",), "needs either --bootstrap-server or --bootstrap-controller"),
        ((*AT, "-C", "localhost:1", "cluster-id"), "needs either --bootstrap-server or"),
        ((*AT, "cluster-id", "--include-fenced-brokers"), "only supported with list-endpoints"),
        (("-C", "localhost:1", "unregister", "-i", "1"), "unregister needs --bootstrap-server"),
        ((*AT, "forget"), "'forget' is not one of"),
    ],
)
def test_flags_that_do_not_fit(run: Run, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run("cluster", *arguments)
    assert (code, out) == (2, "")
    assert words in err


# -- broker-api-versions


def test_the_versions_of_brokers(run: Run, admin: FakeAdmin) -> None:
    admin.racks = {1: "r", 2: None}
    late = ApiError(ErrorCode.REQUEST_TIMED_OUT, "not done in 5000 ms: no answer")
    admin.apis = {1: {ApiKey.METADATA: Versions(0, 13)}, 2: late}
    code, out, err = run("broker-api-versions", *AT)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "h:9093 (id: 1 rack: r isFenced: false) -> ("
    assert "\tMetadata(3): 0 to 13 [usable: 13]," in lines
    assert lines[-1] == (
        "h:9094 (id: 2 rack: null isFenced: false) -> ERROR: not done in 5000 ms: no answer"
    )
    assert admin.settings["request.timeout.ms"] == "5000"


def test_the_text_is_that_of_kafkas_tool() -> None:
    broker = BrokerDescription(1, "127.0.0.1", 29192)
    served = {0: Versions(0, 13), 1: Versions(4, 18), 2: Versions(1, 11), 3: Versions(0, 13)}
    text = "\n".join(broker_lines(broker, served))
    assert text.startswith(APIS_OF_KAFKA)
    assert text.endswith(END_OF_KAFKA)
    kept = [key for key in range(93) if key not in BETWEEN_NODES]
    assert [int(line.partition("(")[2].partition(")")[0]) for line in text.split("\n")[1:-1]] == (
        kept
    )


@pytest.mark.parametrize(
    ("key", "versions", "line"),
    [
        (ApiKey.METADATA, Versions(0, 99), "\tMetadata(3): 0 to 99 [usable: 13],"),
        (ApiKey.METADATA, Versions(98, 99), "\tMetadata(3): 98 to 99 [unusable: node too new],"),
        (ApiKey.FETCH, Versions(0, 3), "\tFetch(1): 0 to 3 [unusable: node too old],"),
        (
            ApiKey.STREAMS_GROUP_DESCRIBE,
            Versions(0, 0),
            "\tStreamsGroupDescribe(89): 0 [unusable: unknown to this client],",
        ),
        (
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            Versions(0, 0),
            "\tListPartitionReassignments(46): 0 [usable: 0],",
        ),
        (29_999, Versions(1, 2), "\tUNKNOWN(29999): 1 to 2"),
        (ApiKey.DESCRIBE_LAG, Versions(0, 0), "\tDescribeLag(30003): 0 [usable: 0]"),
    ],
)
def test_versions_of_one_api(key: int, versions: Versions, line: str) -> None:
    assert line in broker_lines(BrokerDescription(1, "h", 1), {key: versions})[1].split("\n")
