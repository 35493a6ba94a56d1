"""Questions that nobody answers are asked again, as often as the options say; no broker."""

import re
from typing import Any

import pytest

from minikafka.client.admin.config_types import ConfigEntry, ConfigResource
from minikafka.client.admin.topic_types import PartitionDescription, TopicDescription, TopicListing
from minikafka.client.errors import (
    AdminError,
    BootstrapError,
    ConnectionLost,
    CorruptRecord,
    OffsetOutOfRange,
    RequestTimedOut,
)
from minikafka.client.offsets import ListedOffset
from minikafka.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from minikafka.protocol.messages.describe_configs import ConfigSource
from minikafka.protocol.types import TopicPartition
from minikafka.spark.cluster import MOST_BYTES, Cluster
from minikafka.spark.source_options import Patience

SETTINGS = {"bootstrap.servers": "nobody:9092"}


class FakeAdmin:
    """Answers after so many failures."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures = failures
        self.error = error
        self.asked: list[dict[str, Any]] = []

    def list_topics(self, **how: Any) -> list[TopicListing]:
        self._answer(how)
        return [TopicListing("orders-1", "", False), TopicListing("reorders", "", False)]

    def list_offsets(
        self, asked: dict[TopicPartition, int], **how: Any
    ) -> dict[TopicPartition, ListedOffset]:
        self._answer(how)
        return {partition: ListedOffset(7, -1, 0) for partition in asked}

    def describe_configs(
        self, asked: list[ConfigResource], **how: Any
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        self._answer(how)
        entry = ConfigEntry(MOST_BYTES, "7000", ConfigSource.DEFAULT_CONFIG, False, False)
        return {resource: {entry.name: entry} for resource in asked}

    def _answer(self, how: dict[str, Any]) -> None:
        self.asked.append(how)
        if len(self.asked) <= self.failures:
            raise self.error


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("minikafka.spark.cluster.sleep", found.append)
    return found


def cluster_of(
    admin: FakeAdmin, monkeypatch: pytest.MonkeyPatch, patience: Patience, **settings: str
) -> Cluster:
    dotted = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = Cluster({**SETTINGS, **dotted}, patience)
    monkeypatch.setattr(cluster, "_asking", lambda: admin)
    return cluster


@pytest.mark.parametrize(
    "error", [RequestTimedOut("slow"), ConnectionLost("gone"), BootstrapError([])]
)
def test_a_question_is_asked_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float], error: Exception
) -> None:
    admin = FakeAdmin(2, error)
    cluster = cluster_of(admin, monkeypatch, Patience(retries=2, retry_interval_ms=250))
    assert cluster.latest({"t": (0, 1)}) == {"t": {0: 7, 1: 7}}
    assert pauses == [0.25, 0.25]


def test_patience_ends(monkeypatch: pytest.MonkeyPatch, pauses: list[float]) -> None:
    admin = FakeAdmin(99, RequestTimedOut("slow"))
    cluster = cluster_of(admin, monkeypatch, Patience(retries=0))
    with pytest.raises(RequestTimedOut):
        cluster.earliest({"t": (0,)})
    assert (len(admin.asked), pauses) == (1, [])


def test_the_limit_of_a_topic_that_a_broker_does_not_know_yet_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    resource = ConfigResource.topic("t")
    missing = AdminError({str(resource): ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
    forbidden = AdminError({str(resource): ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)})
    times = iter(range(99))
    monkeypatch.setattr("minikafka.spark.cluster.monotonic", lambda: next(times))
    admin = FakeAdmin(2, missing)
    assert cluster_of(admin, monkeypatch, Patience()).most_bytes("t") == 7_000
    assert pauses == [0.1, 0.1]
    for error in (missing, forbidden):
        with pytest.raises(AdminError):
            cluster_of(FakeAdmin(99, error), monkeypatch, Patience()).most_bytes("t")


def test_isolation_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for level, asked in (("read_committed", 1), ("read_uncommitted", 0)):
        admin = FakeAdmin(0, RequestTimedOut(""))
        cluster_of(admin, monkeypatch, Patience(), isolation_level=level).latest({"t": (0,)})
        assert admin.asked == [{"isolation_level": asked}]


def test_internal_topics_match_only_when_they_are_not_excluded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    admin = FakeAdmin(0, RequestTimedOut(""))
    cluster = cluster_of(admin, monkeypatch, Patience())
    assert cluster.topics_matching(re.compile("^orders")) == ["orders-1"]
    assert cluster.topics_matching(re.compile("orders")) == ["orders-1", "reorders"]
    cluster_of(admin, monkeypatch, Patience(), exclude_internal_topics="false").topics_matching(
        re.compile(".")
    )
    assert [how["include_internal"] for how in admin.asked] == [False, False, True]


def test_only_what_is_expected_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    """A topic that a query went on without costs no trigger a wait."""
    partitions = tuple(PartitionDescription(p, 1, 0, (1,), (1,)) for p in (0, 1))
    there = {"t": TopicDescription("t", "id", False, partitions)}
    cluster = Cluster(SETTINGS)
    times = iter(range(0, 1000, 2))
    monkeypatch.setattr("minikafka.spark.cluster.monotonic", lambda: next(times))
    monkeypatch.setattr(cluster, "_described", lambda topics: there)
    cases: list[tuple[dict[str, tuple[int, ...]] | None, bool]] = [
        ({"t": (0, 1)}, False),
        ({}, False),
        ({"gone": (0,), "t": ()}, True),
        ({"t": (0, 1, 2)}, True),
        ({"read no more": (0,)}, False),
        (None, True),
    ]
    for expected, waits in cases:
        pauses.clear()
        assert cluster.describe(["t", "gone"], expected) == there
        assert bool(pauses) == waits, expected


class FakeReader:
    """A consumer that reads nothing, in its own way."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.is_closed = False

    def poll_raw(self, timeout_ms: int) -> list[Any]:
        raise self.error

    def close(self) -> None:
        self.is_closed = True

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@pytest.mark.parametrize(
    ("error", "is_kept"),
    [
        (TimeoutError(), False),
        (RemoteProtocolError("bad"), False),
        (CorruptRecord(TopicPartition("t", 0), 0, "bad"), False),
        (OffsetOutOfRange(TopicPartition("t", 0), 0), True),
    ],
)
def test_a_consumer_in_which_something_broke_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception, is_kept: bool
) -> None:
    made: list[FakeReader] = []

    def make(settings: dict[str, str]) -> FakeReader:
        made.append(FakeReader(error))
        return made[-1]

    monkeypatch.setattr("minikafka.spark.cluster.Consumer.from_config", make)
    cluster = Cluster(SETTINGS)
    for _ in range(2):
        with pytest.raises(type(error)):
            list(cluster.read(TopicPartition("t", 0), 0, 5))
    assert [each.is_closed for each in made] == ([False] if is_kept else [True, True])
