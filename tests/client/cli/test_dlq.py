"""`minikafka dlq`: what it prints, and what it refuses before anything is asked."""

import json

import pytest

from minikafka.client.cli.dlq import list_lines, show_lines
from minikafka.client.consumer.retry_batch import Raw
from minikafka.client.consumer.retry_headers import Failure, dead_letter_headers
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.records.batch_header import TimestampType

from .conftest import Run

NOON = 1_790_510_400_000
TO = ("--bootstrap-server", "h:1")


def letter(message: str = "no price", value: bytes | None = b"12 \xff") -> Raw:
    failure = Failure("orders", 3, 7, "billing", NOON, KeyError(message))
    headers = dead_letter_headers([("mine", b"1")], failure)
    return ConsumerRecord(
        "dlq.billing", 0, 5, NOON, TimestampType.CREATE_TIME, b"k", value, headers
    )


def test_the_list_is_a_table_or_lines_of_json() -> None:
    foreign = letter()._replace(offset=6, headers=[])
    head, row, bare = list_lines([letter("x" * 200), foreign], is_json=False)
    assert head.split() == ["Letter", "Buried", "From", "Attempts", "Exception", "Message"]
    cells = row.split()
    assert cells[:5] == ["0:5", "2026-09-27T12:00:00.000Z", "orders-3@7", "1", "KeyError"]
    assert cells[5].endswith("…")
    assert len(cells[5]) == 60
    assert bare.split() == ["0:6", "2026-09-27T12:00:00.000Z", "-"]
    told = json.loads(list_lines([letter()], is_json=True)[0])
    assert (told["partition"], told["offset"], told["timestamp_ms"]) == (0, 5, NOON)
    assert told["letter"]["group"] == "billing"
    assert told["letter"]["exception"] == "builtins.KeyError"


def test_a_letter_is_shown_with_its_headers_and_bytes_that_are_no_text() -> None:
    lines = show_lines(letter(), is_json=False)
    assert "mine" + " " * 25 + "1" in lines
    assert lines[-3:] == ["key: k", "value:", "12 \\xff"]
    told = json.loads(show_lines(letter(value=None), is_json=True)[0])
    assert (told["key"], told["value"]) == ("k", None)
    assert ["mine", "1"] in told["headers"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("requeue", "d"), "needs --where, --letter or --all"),
        (("discard", "d"), "needs --where, --letter or --all"),
        (("discard", "d", "--all", "--letter", "0:1"), "either --letter or --all"),
        (("discard", "d", "--letter", "1"), "--letter 1: needs PARTITION:OFFSET"),
        (("list", "d", "--where", "topics=x"), "'topics=x' is no condition"),
        (("requeue", "d", "--where", "message~("), "is no regular expression"),
        (("requeue", "d", "--all", "--to", "t", "--to-origin"), "either --to or --to-origin"),
    ],
)
def test_what_is_not_said_clearly_is_refused(
    run: Run, arguments: tuple[str, ...], words: str
) -> None:
    code, _, err = run("dlq", *arguments, *TO)
    assert code == 2
    assert words in " ".join(err.split())
