"""R-53: a malformed traceparent is ignored."""

import pytest

from minikafka.protocol.trace_context import TraceContext, trace_context_of

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
