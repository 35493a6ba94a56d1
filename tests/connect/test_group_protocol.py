"""Subscriptions and assignments, byte by byte as Kafka's ConnectProtocol describes them."""

import struct

import pytest

from minikafka.connect.group_protocol import (
    CONFIG_MISMATCH,
    Assignment,
    Subscription,
    connector_of,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from minikafka.connect.states import TaskId
from minikafka.protocol.errors import RemoteProtocolError

URL = b"http://a:8083/"


def text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def tasks(name: bytes, *numbers: int) -> bytes:
    return text(name) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


HELD = (
    b"\x00\x02"  # the allocation's own version
    b"\x00\x00"  # no error
    + text(b"leader-1")
    + text(URL)
    + b"\x00\x00\x00\x00\x00\x00\x00\x07"  # config offset
    + b"\x00\x00\x00\x02"
    + tasks(b"one", -1, 0)
    + tasks(b"two", 3)
    + b"\x00\x00\x00\x00"  # revoked: an empty array
    + b"\x00\x00\x00\x00"  # no delay
)
V0_SUBSCRIPTION = b"\x00\x00" + text(URL) + b"\x00\x00\x00\x00\x00\x00\x00\x09"
V1_WITHOUT = b"\x00\x01" + text(URL) + b"\x00\x00\x00\x00\x00\x00\x00\x09" + b"\xff\xff\xff\xff"
V2_SUBSCRIPTION = (
    b"\x00\x02"
    + text(URL)
    + b"\x00\x00\x00\x00\x00\x00\x00\x09"
    + struct.pack(">i", len(HELD))
    + HELD
)
V0_ASSIGNMENT = (
    b"\x00\x00\x00\x00"
    + text(b"leader-1")
    + text(URL)
    + b"\x00\x00\x00\x00\x00\x00\x00\x07"
    + b"\x00\x00\x00\x01"
    + tasks(b"one", -1, 0, 1)
)
V1_ASSIGNMENT = (
    b"\x00\x01\x00\x00"
    + text(b"leader-1")
    + text(URL)
    + b"\x00\x00\x00\x00\x00\x00\x00\x07"
    + b"\x00\x00\x00\x01"
    + tasks(b"one", -1)
    + b"\x00\x00\x00\x01"
    + tasks(b"two", 0, 2)
    + b"\x00\x00\x27\x10"  # 10 000 ms
)
MISMATCH = (
    b"\x00\x02\x00\x01"
    + text(b"leader-1")
    + text(URL)
    + b"\x00\x00\x00\x00\x00\x00\x00\x07"
    + bytes(12)
)


@pytest.mark.parametrize("encoded", [V0_SUBSCRIPTION, V1_WITHOUT, V2_SUBSCRIPTION])
def test_x_02_a_subscription_of_a_kafka_worker_is_read_and_written_alike(encoded: bytes) -> None:
    said, allocation = decode_subscription(encoded)
    assert (said.url, said.config_offset, said.is_ours) == (URL.decode(), 9, False)
    assert said.version == encoded[1]
    assert encode_subscription(said, allocation) == encoded


def test_x_02_what_a_kafka_worker_holds_is_read() -> None:
    said, _ = decode_subscription(V2_SUBSCRIPTION)
    assert said.held == (connector_of("one"), TaskId("one", 0), TaskId("two", 3))
    assert decode_subscription(V1_WITHOUT)[0].held == ()


@pytest.mark.parametrize("encoded", [V0_ASSIGNMENT, V1_ASSIGNMENT, MISMATCH, HELD])
def test_x_02_an_assignment_of_a_kafka_worker_is_read_and_written_alike(encoded: bytes) -> None:
    assert encode_assignment(decode_assignment(encoded)) == encoded


def test_x_02_an_assignment_says_what_starts_and_what_stops() -> None:
    assert decode_assignment(V1_ASSIGNMENT) == Assignment(
        version=1,
        leader="leader-1",
        leader_url=URL.decode(),
        config_offset=7,
        assigned=(connector_of("one"),),
        revoked=(TaskId("two", 0), TaskId("two", 2)),
        scheduled_delay_ms=10_000,
    )
    assert decode_assignment(MISMATCH).error == CONFIG_MISMATCH
    assert decode_assignment(b"") == Assignment()


def test_x_02_arrays_that_are_null_are_empty() -> None:
    nulls = MISMATCH[:-12] + b"\xff\xff\xff\xff" * 2 + bytes(4)
    assert decode_assignment(nulls) == decode_assignment(MISMATCH)


@pytest.mark.parametrize("is_leaving", [False, True])
def test_x_13_the_marker_tells_our_workers_and_kafkas_workers_do_not_read_it(
    is_leaving: bool,
) -> None:
    held = (connector_of("one"), TaskId("one", 0))
    ours = Subscription(url="http://b/", config_offset=4, held=held, is_leaving=is_leaving)
    encoded = encode_subscription(ours)
    assert decode_subscription(encoded)[0] == ours
    # A worker of Kafka's reads the fields that it knows, and stops there.
    assert encoded[-4:] == b"mk\x00\x01" if is_leaving else b"mk\x00\x00"
    theirs, _ = decode_subscription(encoded[:-4])
    assert not theirs.is_ours
    assert theirs.held == held


def test_x_13_the_marker_tells_a_leader_of_ours() -> None:
    given = Assignment(leader="m", leader_url="http://b/", config_offset=4, is_ours=True)
    encoded = encode_assignment(given)
    assert encoded[-4:] == b"mk\x00\x00"
    assert decode_assignment(encoded) == given
    assert not decode_assignment(encoded[:-4]).is_ours


@pytest.mark.parametrize("length", range(len(V2_SUBSCRIPTION)))
def test_a_subscription_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_subscription(V2_SUBSCRIPTION[:length])


@pytest.mark.parametrize("length", range(1, len(V1_ASSIGNMENT)))
def test_an_assignment_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_assignment(V1_ASSIGNMENT[:length])


def test_a_version_below_zero_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="version -1"):
        decode_assignment(b"\xff\xff" + V1_ASSIGNMENT[2:])
