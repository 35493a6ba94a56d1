"""The trail of audited requests, and the chain of the records that tell of them."""

from dataclasses import replace

import pytest

from minikafka.protocol.audit import (
    CHANGE,
    GAP,
    ChainCheck,
    Event,
    Link,
    digest_of,
    encode_event,
    link_behind,
    read_event,
    time_text,
)
from minikafka.protocol.control import audit_trail
from minikafka.protocol.control.audit_trail import AuditTrail
from minikafka.protocol.control.records import AuditedRecord

ONE = AuditedRecord(1, "CreateTopics", "User:a", "c", "h", b"k", 5, (), offset=9)


def trail_of(*numbers: int) -> AuditTrail:
    trail = AuditTrail()
    for number in numbers:
        trail.add(replace(ONE, number=number))
    return trail


def test_what_comes_after_a_number_is_found_by_it() -> None:
    trail = trail_of(4, 5, 6)
    found = {number: [each.number for each in trail.after(number)] for number in (0, 3, 4, 6, 9)}
    assert found == {0: [4, 5, 6], 3: [4, 5, 6], 4: [5, 6], 6: [], 9: []}
    assert list(AuditTrail().after(0)) == []


def test_a_trail_is_bounded_by_count_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "COUNT_MAX", 3)
    assert [each.number for each in trail_of(1, 2, 3, 4, 5)] == [3, 4, 5]
    monkeypatch.setattr(audit_trail, "BYTES_MAX", 1)
    trail = trail_of(1, 2)
    assert [each.number for each in trail] == [2]
    assert trail.size == audit_trail.size_of(ONE)


def value_of(number: int, prev: str, kind: str = CHANGE) -> bytes:
    return encode_event(Event(f"{number}", kind, 0, "topic/t", {}), "c", number, prev)


def chain_of(*numbers: int) -> list[tuple[int, bytes, bytes]]:
    link, found = Link(), []
    for offset, number in enumerate(numbers):
        kind = GAP if number > link.number + 1 else CHANGE
        value = value_of(number, link.digest, kind)
        link = Link(number, digest_of(value))
        assert link_behind(value) == link
        found.append((offset, digest_of(value).encode(), value))
    return found


def faults_of(found: list[tuple[int, bytes, bytes]]) -> list[str]:
    chain = ChainCheck()
    return [fault for each in found if (fault := chain.add(*each)) is not None]


def test_a_whole_chain_has_no_fault_from_any_record_on() -> None:
    found = chain_of(1, 2, 3, 4)
    assert [faults_of(found[start:]) for start in range(4)] == [[], [], [], []]


def test_a_gap_is_no_fault_and_is_told() -> None:
    chain = ChainCheck()
    assert [chain.add(*each) for each in chain_of(1, 2, 7, 8)] == [None] * 4
    assert chain.gaps == [(3, 7)]


def test_a_request_that_is_there_twice_or_missing_is_a_fault() -> None:
    first, second = chain_of(1, 2)
    again = value_of(2, digest_of(second[2]))
    skipped = value_of(4, digest_of(second[2]))
    for value, number in ((again, 2), (skipped, 4)):
        faults = faults_of([first, second, (2, digest_of(value).encode(), value)])
        assert faults == [f"offset 2: tells of request {number} behind request 2"]


def test_a_gap_of_requests_that_were_told_is_a_fault() -> None:
    first, second = chain_of(1, 2)
    for number in (1, 2):
        value = value_of(number, digest_of(second[2]), GAP)
        assert faults_of([first, second, (2, digest_of(value).encode(), value)]) == [
            f"offset 2: tells of request {number} behind request 2"
        ]


def test_a_chain_that_does_not_begin_at_its_beginning_is_a_fault() -> None:
    assert faults_of([(0, *each[1:]) for each in chain_of(1, 2)[1:]]) == [
        "offset 0: does not follow the record before it: one of both was changed"
    ]


@pytest.mark.parametrize(
    "value", [b"", b"x", b"[]", b"{}", b'{"data":{},"number":"1"}', b"[" * 9999]
)
def test_what_is_no_event_is_named(value: bytes) -> None:
    assert read_event(value) is None
    assert faults_of([(0, digest_of(value).encode(), value)]) == [
        "offset 0: is no record of the audit"
    ]
    assert link_behind(value) is None


def test_a_record_without_key_or_value_is_named() -> None:
    assert ChainCheck().add(0, None, None) == "offset 0: was changed after it was written"


def test_times_are_told_whatever_the_clock_says() -> None:
    assert time_text(1_795_000_000_123) == "2026-11-18T11:06:40.123Z"
    assert time_text(-5) == "1970-01-01T00:00:00.000Z"
    assert time_text(1 << 62) == "9999-12-31T23:59:59.999Z"


def test_text_that_is_no_utf_8_is_told_all_the_same() -> None:
    value = encode_event(Event("1", CHANGE, 0, "topic/\ud800", {"x": "\n"}), "c", 1, "")
    assert read_event(value) is not None
