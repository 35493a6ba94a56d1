import pytest

from minikafka.client.admin.topic_types import PartitionDescription, TopicDescription
from minikafka.client.cli.topic_table import (
    Filter,
    TopicRow,
    description,
    matching,
    parse_assignment,
)
from minikafka.runtime.errors import ConfigError

FLIGHTS = TopicRow(
    TopicDescription(
        "flights",
        "rSdZ2mC3T0mZJ0wZx1Qq1g",
        False,
        (
            PartitionDescription(0, 1, 0, (1, 2, 3), (1, 2, 3), (), (), ()),
            PartitionDescription(1, 2, 0, (2, 3, 1), (2, 3), (), (), ()),
            PartitionDescription(2, 3, 0, (3, 1, 2), (3,), (), (1,), ()),
            PartitionDescription(3, -1, 0, (1, 2, 3), (2,), (), None, None),
        ),
    ),
    configs={"min.insync.replicas": "2", "segment.bytes": "1048576"},
    min_isr=2,
)
PLAIN = TopicRow(
    TopicDescription(
        "plain", "AAAAAAAAAAAAAAAAAAAAAA", False, (PartitionDescription(0, 1, 0, (1,), (1,)),)
    ),
    {},
)

TOPIC_LINE = (
    "Topic: flights\tTopicId: rSdZ2mC3T0mZJ0wZx1Qq1g\tPartitionCount: 4\tReplicationFactor: 3"
    "\tConfigs: min.insync.replicas=2,segment.bytes=1048576"
)
PARTITION_LINES = [
    "\tTopic: flights\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2,3\tElr: \tLastKnownElr: ",
    "\tTopic: flights\tPartition: 1\tLeader: 2\tReplicas: 2,3,1\tIsr: 2,3\tElr: \tLastKnownElr: ",
    "\tTopic: flights\tPartition: 2\tLeader: 3\tReplicas: 3,1,2\tIsr: 3\tElr: 1\tLastKnownElr: ",
    "\tTopic: flights\tPartition: 3\tLeader: none\tReplicas: 1,2,3\tIsr: 2"
    "\tElr: N/A\tLastKnownElr: N/A",
]


def test_a_description_is_kafkas() -> None:
    assert list(description([FLIGHTS], Filter())) == [TOPIC_LINE, *PARTITION_LINES]
    assert list(description([PLAIN], Filter())) == [
        "Topic: plain\tTopicId: AAAAAAAAAAAAAAAAAAAAAA\tPartitionCount: 1\tReplicationFactor: 1"
        "\tConfigs: ",
        "\tTopic: plain\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: N/A\tLastKnownElr: N/A",
    ]


@pytest.mark.parametrize(
    ("wanted", "partitions"),
    [
        (Filter(under_replicated=True), [1, 2, 3]),
        (Filter(unavailable=True), [3]),
        (Filter(under_min_isr=True), [2, 3]),
        (Filter(at_min_isr=True), [1]),
    ],
)
def test_filters_print_partitions_without_their_topic(
    wanted: Filter, partitions: list[int]
) -> None:
    assert list(description([FLIGHTS], wanted)) == [PARTITION_LINES[index] for index in partitions]


def test_topics_with_overrides_are_lines_of_topics() -> None:
    assert list(description([FLIGHTS, PLAIN], Filter(with_overrides=True))) == [TOPIC_LINE]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (None, ["a", "ab", "b.c"]),
        ("a", ["a"]),
        ("a.*", ["a", "ab"]),
        ('"a, b.c"', ["a", "b.c"]),
        ("c", []),
    ],
)
def test_patterns_match_whole_names(pattern: str | None, names: list[str]) -> None:
    assert matching(["b.c", "ab", "a"], pattern) == names


def test_a_bad_pattern_is_named() -> None:
    with pytest.raises(ConfigError, match="is no regular expression"):
        matching(["a"], "a(")


def test_assignments() -> None:
    assert parse_assignment("1:2,2:3") == [[1, 2], [2, 3]]


@pytest.mark.parametrize("text", ["1:x", "1:1", "1:2,3", ""])
def test_bad_assignments(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_assignment(text)
