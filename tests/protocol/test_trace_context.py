"""R-53: a malformed traceparent is ignored."""

import pytest

from minikafka.protocol.compression import Codec
from minikafka.protocol.records.batch_header import HEADER_SIZE, BatchHeader
from minikafka.protocol.records.records import NewRecord, build
from minikafka.protocol.trace_context import (
    OPENED_BYTES,
    TraceContext,
    first_context_of,
    trace_context_of,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(("flags", "is_sampled"), [("01", True), ("00", False), ("03", True)])
def test_r_53_a_context_is_read(flags: str, is_sampled: bool) -> None:
    headers = [("a", None), ("traceparent", f"00-{TRACE}-{SPAN}-{flags}".encode())]
    assert trace_context_of(headers) == TraceContext(TRACE, SPAN, is_sampled)


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        f"01-{TRACE}-{SPAN}-01".encode(),
        f"00-{TRACE.upper()}-{SPAN}-01".encode(),
        f"00-{'0' * 32}-{SPAN}-01".encode(),
        f"00-{TRACE}-{'0' * 16}-01".encode(),
        f"00-{TRACE}-{SPAN}-01-x".encode(),
        f"00-{TRACE}-{SPAN}-0".encode(),
        f"00-{TRACE}-{SPAN}-01\n".encode(),
        b"\xff" * 55,
    ],
)
def test_r_53_what_is_malformed_is_ignored(value: bytes | None) -> None:
    assert trace_context_of([("traceparent", value)]) is None
    assert trace_context_of([]) is None


PARENT = [("traceparent", f"00-{TRACE}-{SPAN}-01".encode())]


@pytest.mark.parametrize("codec", list(Codec))
def test_r_53_the_first_record_of_a_batch_is_read(codec: Codec) -> None:
    batch = build([NewRecord(1, None, b"a", PARENT), NewRecord(1, None, b"b")], compression=codec)
    assert first_context_of(batch, BatchHeader(batch)) == TraceContext(TRACE, SPAN, True)
    other = build([NewRecord(1, None, b"a"), NewRecord(1, None, b"b", PARENT)], compression=codec)
    assert first_context_of(other, BatchHeader(other)) is None


def test_r_53_what_expands_far_or_is_damaged_is_not_read() -> None:
    large = [NewRecord(1, None, bytes(OPENED_BYTES), PARENT)]
    plain = build(large)
    assert first_context_of(plain, BatchHeader(plain)) is not None
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        batch = build(large, compression=codec)
        assert first_context_of(batch, BatchHeader(batch)) is None
        batch = build([NewRecord(1, None, b"a", PARENT)], compression=codec)
        batch[HEADER_SIZE:] = bytes(len(batch) - HEADER_SIZE)
        assert first_context_of(batch, BatchHeader(batch)) is None
    batch = build([NewRecord(1, None, b"a", PARENT)])
    batch[HEADER_SIZE] = 0xFF
    assert first_context_of(batch, BatchHeader(batch)) is None
