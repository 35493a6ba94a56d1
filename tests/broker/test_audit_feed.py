"""What a broker tells the audit besides: bounded, in order, and never trusted blindly."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minikafka.broker.audit import feed as module
from minikafka.broker.audit.entries import more_links
from minikafka.broker.audit.feed import PER_SECOND, AuditFeed, FeedRoom
from minikafka.broker.audit.happenings import (
    ACTION,
    CHANGES_MAX,
    DENIAL,
    LOGIN,
    Change,
    Happening,
    acted,
    denied,
    events_of,
    login_failed,
    message_of,
)
from minikafka.protocol.acls import Operation, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.audit import Link, read_event
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.audit_events import (
    MOST_DATA_BYTES,
    MOST_EVENTS,
    AuditEvent,
    AuditEventsRequest,
    AuditEventsResponse,
)
from minikafka.protocol.records.records import records
from minikafka.protocol.types import AUDIT_TOPIC
from minikafka.runtime.config import from_mapping
from minikafka.security.audit import Denial
from minikafka.security.authorizer import Authorizer, Rights
from minikafka.security.authorizer_config import AuthorizerConfig
from minikafka.security.principal import user

from ..storage.faults import FaultyFs
from ..storage.support import TestRuntime

ONE = Happening(LOGIN, "listener/X", {"reason": "x"})


def rights() -> Rights:
    made = Authorizer(from_mapping(AuthorizerConfig, {}))
    made.on_metadata(Delta(is_snapshot=True), MetadataImage())
    return made.rights_of(user("bob"), "10.0.0.1")


def test_a_denial_says_who_what_and_how_often() -> None:
    denial = Denial(Operation.WRITE, Resource.TOPIC, "t" * 300, ApiKey.PRODUCE)
    told = denied(rights(), denial, 3)
    assert (told.type, told.subject[:8], len(told.subject)) == (DENIAL, "topic/tt", 206)
    assert told.data == {
        "principal": "User:bob",
        "host": "10.0.0.1",
        "action": "Produce",
        "resource": told.subject,
        "operation": "WRITE",
        "result": "denied",
        "error_code": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "repeated": 3,
    }
    cluster = denied(rights(), Denial(Operation.ALTER, Resource.CLUSTER, "c", ApiKey.PRODUCE), 0)
    assert cluster.data["error_code"] == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert "repeated" not in cluster.data


def test_a_failed_login_has_no_principal() -> None:
    told = login_failed("10.0.0.1", "SASL", "wrong password")
    assert (told.type, told.subject, told.data["principal"]) == (LOGIN, "listener/SASL", None)
    assert told.data["reason"] == "wrong password"


def test_a_request_that_changed_nothing_is_not_told() -> None:
    assert acted({}, ApiKey.DELETE_GROUPS, []) is None
    many = [Change(f"group/{number}", "group", "empty", None) for number in range(50)]
    told = acted({"principal": "User:a"}, ApiKey.DELETE_GROUPS, many)
    assert told is not None
    assert (told.type, told.subject, told.data["action"]) == (ACTION, "group/0", "DeleteGroups")
    assert (len(told.data["changes"]), told.data["left_out"]) == (CHANGES_MAX, 50 - CHANGES_MAX)


def test_what_is_too_large_goes_without_its_details() -> None:
    many = [Change("\x01" * 400, "group", "empty", None) for _ in range(CHANGES_MAX)]
    told = acted({"principal": "User:a"}, ApiKey.DELETE_GROUPS, many)
    assert told is not None
    message = message_of(told, "id", 5)
    assert len(message.data) < MOST_DATA_BYTES
    data = json.loads(message.data)
    assert (data["changes"], data["left_out"]) == ([], CHANGES_MAX)
    assert events_of([message]) is not None


def message(**other: Any) -> AuditEvent:
    given: dict[str, Any] = {
        "event_id": "id",
        "event_type": LOGIN,
        "time_ms": 5,
        "subject": "s",
        "data": "{}",
    }
    return AuditEvent(**given | other)


@pytest.mark.parametrize(
    "other",
    [
        {"event_type": "minikafka.audit.change"},
        {"event_id": "x" * 500},
        {"subject": "x" * 500},
        {"data": "x" * (MOST_DATA_BYTES + 1)},
        {"data": "[]"},
        {"data": "{"},
        {"data": "[" * 5_000},
    ],
)
def test_what_no_broker_sends_is_refused(other: dict[str, Any]) -> None:
    assert events_of([message()]) is not None
    assert events_of([message(), message(**other)]) is None


def test_too_many_events_at_once_are_refused() -> None:
    assert events_of([message()] * MOST_EVENTS) is not None
    assert events_of([message()] * (MOST_EVENTS + 1)) is None


def test_events_are_links_of_the_chain_and_count_as_no_request() -> None:
    made = more_links(events_of([message(), message()]) or [], Link(7, "d"), "c", 5)
    assert made is not None
    found = [read_event(each.value) or {} for each in records(made.batch, 0)]
    assert [each["number"] for each in found] == [7, 7]
    assert found[0]["prev"] == "d"
    assert made.link.number == 7
    assert more_links([], Link(), "c", 5) is None


class FakeWriter:
    """The leader's end on this broker, which answers what the test says."""

    def __init__(self) -> None:
        self.taken: list[AuditEvent] = []
        self.codes: list[ErrorCode] = []
        self.created = asyncio.Event()

    def take(self, messages: list[AuditEvent]) -> ErrorCode:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if not code:
            self.taken += messages
        return code

    def create_topic(self) -> None:
        self.created.set()


class FakePeers:
    """Another broker, which leads and takes everything."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def ask(self, broker_id: int, request: AuditEventsRequest, *, lane: str) -> Any:
        self.asked.append(len(request.events))
        return AuditEventsResponse(error_code=ErrorCode.NONE)


def image_led_by(leader: int) -> MetadataImage:
    image = MetadataImage()
    image.apply(r.TopicRecord(AUDIT_TOPIC, b"t" * 16), 0)
    image.apply(r.PartitionRecord(b"t" * 16, 0, (1, 2), (1, 2), leader), 1)
    return image


Lab = Callable[[MetadataImage], tuple[AuditFeed, Any, Any]]


@pytest.fixture
def runtime() -> Iterator[TestRuntime]:
    made = TestRuntime(FaultyFs())
    yield made
    made.close()


@pytest.fixture
def lab(runtime: TestRuntime, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Makes the feed of broker 1, with fakes of what it tells."""
    monkeypatch.setattr(module, "RETRY_MS", 0)

    def make(image: MetadataImage) -> tuple[AuditFeed, Any, Any]:
        writer: Any = FakeWriter()
        peers: Any = FakePeers()
        feed = AuditFeed(FeedRoom(runtime, 1, lambda: image), writer, peers, is_on=True)
        return feed, writer, peers

    return make


async def until_told(feed: AuditFeed) -> None:
    while feed._task is not None:
        await asyncio.wait([feed._task])


async def test_the_leader_gets_all_in_order_each_under_its_own_id(lab: Lab) -> None:
    feed, writer, _ = lab(image_led_by(1))
    for number in range(MOST_EVENTS + 10):
        feed.note(ONE._replace(subject=str(number)))
    writer.codes = [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS]
    await until_told(feed)
    assert [each.subject for each in writer.taken] == [str(n) for n in range(MOST_EVENTS + 10)]
    assert len(dict.fromkeys(each.event_id for each in writer.taken)) == MOST_EVENTS + 10
    assert (feed.told, feed.dropped) == (MOST_EVENTS + 10, 0)


async def test_another_broker_that_leads_is_asked(lab: Lab) -> None:
    feed, writer, peers = lab(image_led_by(2))
    feed.note(ONE)
    await until_told(feed)
    assert (peers.asked, writer.taken) == ([1], [])


async def test_while_there_is_no_topic_it_is_asked_for(lab: Lab) -> None:
    image = MetadataImage()
    feed, writer, _ = lab(image)
    feed.note(ONE)
    await writer.created.wait()
    for offset, record in enumerate(image_led_by(1).to_records()):
        image.apply(record, offset)
    await until_told(feed)
    assert len(writer.taken) == 1


async def test_what_is_refused_for_good_holds_up_nothing(lab: Lab) -> None:
    feed, writer, _ = lab(image_led_by(1))
    writer.codes = [ErrorCode.INVALID_REQUEST]
    feed.note(ONE)
    await until_told(feed)
    feed.note(ONE)
    await until_told(feed)
    assert (len(writer.taken), feed.told, feed.dropped) == (1, 1, 1)


async def test_what_is_too_much_is_dropped_and_counted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, runtime: TestRuntime
) -> None:
    now = [0]
    monkeypatch.setattr(runtime, "monotonic_ms", lambda: now[0])
    feed, writer, _ = lab(image_led_by(1))
    for _ in range(PER_SECOND + 5):
        feed.note(ONE)
    assert feed.dropped == 5
    now[0] = 1_000
    feed.note(ONE)
    await until_told(feed)
    assert (len(writer.taken), feed.dropped) == (PER_SECOND + 1, 5)
    monkeypatch.setattr(module, "QUEUE_MAX", 2)
    for _ in range(5):
        feed.note(ONE)
    assert feed.dropped == 8
    await feed.close()


async def test_nothing_is_told_while_it_is_off_or_closed(lab: Lab) -> None:
    feed, writer, _ = lab(image_led_by(1))
    feed.note(None)
    feed.is_on = False
    feed.note(ONE)
    feed.is_on = True
    await feed.close()
    feed.note(ONE)
    assert (writer.taken, feed._task) == ([], None)
