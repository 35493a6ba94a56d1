"""`e2e-latency`: its results in Kafka's words, and records that come back changed or not at all."""

import pytest

from minikafka.client.cli.e2e_latency import Sent, difference, summary
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.records.record_batch import Headers, TimestampType

from .conftest import Run

MEASURE = ("e2e-latency", "--bootstrap-server", "localhost:1", "--topic", "t")
SENT = Sent(b"k", b"v", (("h", None),))


def read(
    key: bytes | None = b"k", value: bytes | None = b"v", headers: Headers = (("h", None),)
) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("t", 0, 0, 0, TimestampType.CREATE_TIME, key, value, headers)


def test_the_summary_is_that_of_kafkas_tool() -> None:
    """Latencies of 0.0 to 99.9 ms: percentiles are cut to whole ms, the average is not."""
    assert summary([number / 10 for number in range(1000)]) == [
        "Avg latency: 49.9500 ms",
        "Percentiles: 50th = 50, 99th = 99, 99.9th = 99",
    ]


def test_the_record_that_was_sent_is_no_difference() -> None:
    assert difference(SENT, [read()]) is None


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "poll() timed out before finding a result (timeout:[60000ms])"),
        ([read(), read()], "Only one result was expected during this test. We found [2]"),
        ([read(value=b"w")], "The message value read [b'w'] did not match the one sent [b'v']"),
        ([read(key=None)], "The message key read [None] did not match the one sent [b'k']"),
        ([read(headers=())], "The message headers read [()] did not match the one sent"),
    ],
)
def test_what_differs_is_named(found: list[ConsumerRecord[bytes, bytes]], words: str) -> None:
    why = difference(SENT, found)
    assert why is not None
    assert why.startswith(words)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--num-records=0", "--producer-acks=1", "--record-size=1"), "'--num-records': 0 is not"),
        (("--num-records=1", "--producer-acks=0", "--record-size=1"), "'0' is not one of"),
        (("--num-records=1", "--producer-acks=1", "--record-size=-1"), "'--record-size': -1 is"),
        (("--num-records=1", "--producer-acks=1"), "Missing option '--record-size'"),
    ],
)
def test_flags_that_cannot_be(run: Run, flags: tuple[str, ...], words: str) -> None:
    code, out, err = run(*MEASURE, *flags)
    assert (code, out) == (2, "")
    assert words in err
