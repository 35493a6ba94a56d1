"""Every message in every version: there and back; any bytes: a message or a refusal."""

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from minikafka.protocol import codec
from minikafka.protocol.errors import RemoteProtocolError
from minikafka.protocol.schema import REQUESTS

from ..protocol.strategies import every_version, messages_of, name_of

pytestmark = pytest.mark.slow

CASES = list(every_version())
EVERY_VERSION = pytest.mark.parametrize(("cls", "version"), CASES, ids=name_of)
FEW = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
LIKELY_HEADERS = st.builds(
    lambda key, version, rest: bytes((0, key, 0, version)) + rest,
    st.integers(0, 92),
    st.integers(0, 20),
    st.binary(max_size=40),
)
MANY = settings(max_examples=1_500, deadline=None)


@EVERY_VERSION
def test_there_and_back(cls: type, version: int) -> None:
    @FEW
    @given(messages_of(cls, version))
    def check(message: Any) -> None:
        written = codec.encode_bytes(message, version)
        assert codec.decode(cls, version, written) == message

    check()


@EVERY_VERSION
def test_damaged_bytes_are_a_message_or_a_refusal(cls: type, version: int) -> None:
    """A valid message with a few bytes changed gets much deeper than bytes at random."""

    @FEW
    @given(st.data())
    def check(data: st.DataObject) -> None:
        written = bytearray(codec.encode_bytes(data.draw(messages_of(cls, version)), version))
        for _ in range(20):
            damaged = bytearray(written)
            for position in data.draw(
                st.lists(st.integers(0, max(0, len(damaged) - 1)), max_size=4)
            ):
                if damaged:
                    damaged[position] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            read_or_refuse(cls, version, bytes(damaged))

    check()


def read_or_refuse(cls: type, version: int, data: bytes) -> None:
    try:
        message: Any = codec.decode(cls, version, data)
    except RemoteProtocolError:
        return
    codec.encode_bytes(message, version)


@MANY
@given(st.sampled_from(CASES), st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_refusal(case: tuple[type, int], data: bytes) -> None:
    read_or_refuse(*case, data)


@MANY
@given(st.binary(max_size=60) | LIKELY_HEADERS)
@example(b"")
def test_any_request_header_is_read_or_refused(data: bytes) -> None:
    try:
        header, position = codec.decode_request_header(memoryview(data))
    except RemoteProtocolError:
        return
    assert 10 <= position <= len(data)
    assert header.client_id is None or len(header.client_id) <= len(data)


@MANY
@given(st.sampled_from(CASES), st.binary(max_size=100))
def test_any_response_frame_is_read_or_refused(case: tuple[type, int], data: bytes) -> None:
    cls, version = case
    if cls in REQUESTS.values():
        return
    with contextlib.suppress(RemoteProtocolError):
        codec.decode_response_frame(cls, version, data)
