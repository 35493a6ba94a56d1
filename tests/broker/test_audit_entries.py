"""What the leader of the audit topic appends next, as values in and out."""

from dataclasses import replace

import pytest

from minikafka.broker.audit.entries import Links, audit_topic, change_event, next_links
from minikafka.protocol.audit import ChainCheck, Link, read_event
from minikafka.protocol.control.audit_trail import AuditTrail
from minikafka.protocol.control.records import AuditedChange, AuditedRecord
from minikafka.protocol.records.records import Record, records

CHANGE = AuditedChange("topic", "t", "retention.ms", "1", "2")
ONE = AuditedRecord(1, "CreateTopics", "User:a", "c", "h", b"k", 5, (CHANGE,), offset=9)


def trail_of(*numbers: int) -> AuditTrail:
    trail = AuditTrail()
    for number in numbers:
        trail.add(replace(ONE, number=number, offset=10 * number))
    return trail


def made_of(made: Links | None) -> list[Record]:
    assert made is not None
    return list(records(made.batch, 0))


def numbers_of(found: list[Record]) -> list[tuple[int, str]]:
    events = [read_event(each.value) or {} for each in found]
    return [(each["number"], each["type"].rpartition(".")[2]) for each in events]


def test_what_is_not_written_comes_next_in_one_chain() -> None:
    trail = trail_of(1, 2, 3)
    first = next_links(trail, Link(), "c", 7)
    assert numbers_of(made_of(first)) == [(1, "change"), (2, "change"), (3, "change")]
    assert first is not None
    assert first.link.number == 3
    assert next_links(trail, first.link, "c", 7) is None
    trail.add(replace(ONE, number=4))
    second = made_of(next_links(trail, first.link, "c", 7))
    assert numbers_of(second) == [(4, "change")]
    chain = ChainCheck()
    for offset, each in enumerate([*made_of(first), *second]):
        assert chain.add(offset, each.key, each.value) is None


def test_a_gap_is_said_before_what_follows_it() -> None:
    made = next_links(trail_of(5, 6), Link(2, "d"), "c", 7)
    assert numbers_of(made_of(made)) == [(4, "gap"), (5, "change"), (6, "change")]
    data = (read_event(made_of(made)[0].value) or {})["data"]
    assert (data["first"], data["last"]) == (3, 4)


def test_a_leader_that_knows_more_than_its_metadata_waits() -> None:
    assert next_links(trail_of(1, 2), Link(5, "d"), "c", 7) is None
    assert next_links(AuditTrail(), Link(), "c", 7) is None


def test_batches_are_bounded_and_a_large_request_has_one_of_its_own() -> None:
    trail, link, found = trail_of(1, 2, 3), Link(), list[Record]()
    while (made := next_links(trail, link, "c", 7, most_bytes=10)) is not None:
        assert len(made_of(made)) == 1
        found, link = [*found, *made_of(made)], made.link
    assert [number for number, _ in numbers_of(found)] == [1, 2, 3]


def test_an_event_tells_who_changed_what() -> None:
    event = change_event(replace(ONE, left_out=2))
    assert (event.id, event.subject, event.at_ms) == ("change-1", "topic/t", 5)
    assert event.data == {
        "principal": "User:a",
        "client": "c",
        "host": "h",
        "action": "CreateTopics",
        "result": "changed",
        "error_code": 0,
        "request": "6b",
        "metadata_offset": 9,
        "changes": [{"resource": "topic/t", "aspect": "retention.ms", "before": "1", "after": "2"}],
        "left_out": 2,
    }
    assert change_event(replace(ONE, changes=(), principal="")).subject == "cluster"


@pytest.mark.parametrize(
    ("brokers", "replicas", "min_isr"), [(1, 1, "1"), (2, 2, "2"), (9, 3, "2")]
)
def test_the_topic_has_as_many_replicas_as_there_are_brokers(
    brokers: int, replicas: int, min_isr: str
) -> None:
    topic = audit_topic(brokers)
    said = {each.name: each.value for each in topic.configs}
    assert (topic.num_partitions, topic.replication_factor) == (1, replicas)
    assert said["min.insync.replicas"] == min_isr
    assert said["retention.ms"] == str(90 * 86_400_000)
