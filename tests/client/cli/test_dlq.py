"""`minikafka dlq`: what it prints, and what it refuses before anything is asked."""

import json

import pytest

from minikafka.client.cli.dlq import list_lines, show_lines
from minikafka.client.consumer.dead_letters import to_origin
from minikafka.client.consumer.letter_filter import choice_of
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


OTHERS: dict[str, list[tuple[str, bytes]]] = {
    "connect": [
        ("__connect.errors.topic", b"orders"),
        ("__connect.errors.partition", b"3"),
        ("__connect.errors.offset", b"7"),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
        ("__connect.errors.exception.message", b"no price"),
    ],
    "streams": [
        ("__streams.errors.topic", b"orders"),
        ("__streams.errors.partition", b"3"),
        ("__streams.errors.offset", b"7"),
        ("__streams.errors.exception", b"shop.DataException"),
        ("__streams.errors.message", b"no price"),
    ],
    "spring": [
        ("kafka_dlt-original-topic", b"orders"),
        ("kafka_dlt-original-partition", (3).to_bytes(4)),
        ("kafka_dlt-original-offset", (7).to_bytes(8)),
        ("kafka_dlt-exception-fqcn", b"shop.DataException"),
        ("kafka_dlt-exception-message", b"no price"),
    ],
}


@pytest.mark.parametrize("whose", OTHERS)
def test_letters_of_others_are_listed_shown_and_chosen(whose: str) -> None:
    found = letter()._replace(headers=OTHERS[whose])
    row = list_lines([found], is_json=False)[1].split()
    assert row[2:] == ["orders-3@7", "DataException", "no", "price"]
    shown = show_lines(found, is_json=False)
    width = max(len(name) for name, _ in OTHERS[whose])
    values = [line[width + 2 :] for line in shown[: len(OTHERS[whose])]]
    assert values[:3] == ["orders", "3", "7"]
    assert values[4] == "no price"
    assert [
        value for _, value in json.loads(show_lines(found, is_json=True)[0])["headers"][:3]
    ] == ["orders", "3", "7"]
    assert choice_of(["topic=orders", "partition=3", "exception~DataException$"])(found)
    assert to_origin(found) == "orders"


def test_a_letter_sends_nothing_to_the_terminal_that_it_would_obey() -> None:
    evil = letter("\x1b[2J", value=b"a\tb\n\x1b[2J\x00")
    (_, row) = list_lines([evil], is_json=False)
    lines = show_lines(evil, is_json=False)
    assert not any(each in "".join([row, *lines]) for each in "\x1b\x00")
    assert "\\x1b[2J" in row
    assert lines[-1] == "a\tb\n\\x1b[2J\\x00"


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
