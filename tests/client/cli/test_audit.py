import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from minikafka.client.cli.audit import DAY_MS, lines_of, meets, report_of
from minikafka.client.consumer.audit_log import AuditRecord, Verified
from minikafka.protocol.audit import CHANGE, Event, Link, encode_event

from .conftest import Run
from .fake_admin import FakeAdmin

NOON = 1_790_510_400_000
ANY: dict[str, str | None] = {"principal": None, "action": None, "resource": None}
CHANGED = {"resource": "topic/t", "aspect": "retention.ms", "before": None, "after": "5"}
DATA: dict[str, Any] = {
    "principal": "User:alice",
    "host": "10.0.0.1",
    "action": "AlterConfigs",
    "result": "changed",
    "changes": [CHANGED],
}


def value_of(**more: Any) -> bytes:
    return encode_event(Event("1", CHANGE, NOON, "topic/t", DATA | more), "c", 1, "")


def test_a_record_is_told_in_lines_or_in_json() -> None:
    record = AuditRecord(7, None, value_of())
    assert lines_of(record, is_json=False) == [
        "     7  2026-09-27T12:00:00.000Z  User:alice at 10.0.0.1  AlterConfigs: changed topic/t",
        "        topic/t retention.ms: - -> 5",
    ]
    told = json.loads(lines_of(record, is_json=True)[0])
    assert (told["offset"], told["number"], told["data"]["changes"]) == (7, 1, [CHANGED])


def test_long_requests_are_told_in_part_and_texts_move_no_cursor() -> None:
    many = [CHANGED | {"aspect": f"k{number}\x1b[2J"} for number in range(7)]
    lines = lines_of(AuditRecord(7, None, value_of(changes=many, left_out=3)), is_json=False)
    assert lines[1] == "        topic/t k0\\x1b[2J: - -> 5"
    assert lines[-1] == "        5 more"


@pytest.mark.parametrize("value", [None, b"x", value_of(changes={"resource": 5}, left_out="x")])
def test_a_record_that_is_none_of_the_audit_is_told_as_such(value: bytes | None) -> None:
    for is_json in (True, False):
        assert len(lines_of(AuditRecord(7, None, value), is_json=is_json)) == 1
    assert meets(value, (None, None), ANY) is (value is not None and value != b"x")


def test_every_condition_must_be_met() -> None:
    value = value_of()
    conditions: tuple[tuple[dict[str, str | None], bool], ...] = (
        ({"principal": "User:alice"}, True),
        ({"principal": "User:bob"}, False),
        ({"action": "AlterConfigs", "resource": "topic/t"}, True),
        ({"action": "AlterConfigs", "resource": "topic/u"}, False),
    )
    for wanted, is_met in conditions:
        assert meets(value, (None, None), ANY | wanted) is is_met
    for times, is_met in (
        ((NOON, NOON), True),
        ((NOON + 1, None), False),
        ((None, NOON - 1), False),
    ):
        assert meets(value, times, ANY) is is_met


def test_verify_tells_what_is_wrong_and_what_to_note() -> None:
    whole = Verified(0, 3, Link(3, "d" * 64), [], [(4, 5)])
    assert report_of(whole, is_json=False) == [
        "Never written: requests 4 to 5",
        "The chain is whole: 3 records, offsets 0 to 2.",
        f"Last record: 2:{'d' * 64}",
    ]
    broken = Verified(0, 3, Link(3, "d" * 64), ["offset 1: x"], [])
    assert report_of(broken, is_json=False)[:2] == [
        "Wrong: offset 1: x",
        "The chain is broken: 3 records, offsets 0 to 2.",
    ]
    assert json.loads(report_of(broken, is_json=True)[0]) == {
        "first_offset": 0,
        "end_offset": 3,
        "head": f"2:{'d' * 64}",
        "faults": ["offset 1: x"],
        "gaps": [],
    }
    assert report_of(Verified(0, 0, None, [], []), is_json=False) == ["There is no record."]


@pytest.mark.parametrize("known", ["5", "x:" + "0" * 64, "5:abc"])
def test_a_note_that_is_none_is_refused_before_anything_is_asked(run: Run, known: str) -> None:
    code, _, err = run("audit", "verify", "--known", known, "--bootstrap-server", "h:1")
    assert code == 2
    assert "needs OFFSET:SHA256" in err


class FakeLog:
    """An audit with one record, which notes from what time on it was read."""

    since_ms: int | None = None

    def __init__(self, admin: object) -> None:
        pass

    async def read(self, since_ms: int | None = None) -> AsyncIterator[AuditRecord]:
        FakeLog.since_ms = since_ms
        yield AuditRecord(7, None, value_of())


@pytest.mark.parametrize(
    ("since", "read_from", "found"),
    [((), None, True), ((NOON,), NOON - DAY_MS, True), ((NOON + 1,), NOON + 1 - DAY_MS, False)],
)
def test_a_search_since_a_time_reads_from_a_day_before_it(
    run: Run,
    admin: FakeAdmin,
    monkeypatch: pytest.MonkeyPatch,
    since: tuple[int, ...],
    read_from: int | None,
    *,
    found: bool,
) -> None:
    monkeypatch.setattr("minikafka.client.consumer.audit_log.AuditLog", FakeLog)
    options = [part for each in since for part in ("--since", each)]
    code, out, _ = run("audit", "search", "--bootstrap-server", "h:1", *options)
    assert (code, FakeLog.since_ms) == (0, read_from)
    assert out.startswith("     7  ") is found
