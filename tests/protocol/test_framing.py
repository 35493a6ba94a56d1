"""Frames cut out of any division of the byte stream; memory that follows what arrived."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import framing
from minikafka.protocol.errors import LocalProtocolError, RemoteProtocolError
from minikafka.protocol.framing import FrameReader


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def receive(reader: FrameReader, chunk: bytes) -> list[bytes]:
    """Do what a connection does: as many reads as the offered room makes necessary."""
    found: list[bytes] = []
    while chunk:
        room = reader.get_buffer()
        assert len(room) > 0
        count = min(len(room), len(chunk))
        room[:count] = chunk[:count]
        chunk = chunk[count:]
        found += [bytes(view) for view in reader.feed(count)]
    return found


@given(
    st.lists(st.binary(max_size=50) | st.integers(0, 70_000).map(bytes), max_size=12),
    st.lists(st.integers(1, 40_000), min_size=1, max_size=20),
)
def test_frames_come_out_whatever_the_reads(bodies: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(map(frame, bodies))
    reader = FrameReader(100_000)
    found: list[bytes] = []
    turn = 0
    while stream:
        size = sizes[turn % len(sizes)]
        turn += 1
        found += receive(reader, stream[:size])
        stream = stream[size:]
    assert found == bodies
    assert reader.buffered == 0


def test_byte_by_byte() -> None:
    reader = FrameReader(100)
    stream = frame(b"") + frame(b"abc")
    found = [body for i in range(len(stream)) for body in receive(reader, stream[i : i + 1])]
    assert found == [b"", b"abc"]


def test_a_frame_is_a_view_not_a_copy() -> None:
    reader = FrameReader(100)
    room = reader.get_buffer()
    room[:7] = frame(b"abc")
    (view,) = reader.feed(7)
    assert view.obj is room.obj


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_m_01_a_size_out_of_bounds_is_refused_before_allocation(size: int) -> None:
    reader = FrameReader(1000)
    room = reader.get_buffer()
    before = reader.capacity
    room[:4] = struct.pack(">i", size)
    with pytest.raises(RemoteProtocolError, match="the limit is 1000"):
        list(reader.feed(4))
    assert reader.capacity == before


@pytest.mark.parametrize(
    ("data", "who"),
    [
        (b"\x16\x03\x01\x02\x00", "the peer speaks TLS, this end plain text"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "the peer speaks TLS, this end plain text"),
        (b"HTTP/1.1 400 Bad Request", "the peer speaks HTTP"),
        (b"GET / HTTP/1.1", "the peer speaks HTTP"),
    ],
)
def test_a_peer_that_speaks_something_else_well_known_is_named(data: bytes, who: str) -> None:
    reader = FrameReader(256 << 20)
    reader.get_buffer()[: len(data)] = data
    with pytest.raises(RemoteProtocolError, match=f"the limit is .*: {who}$"):
        list(reader.feed(len(data)))


def test_m_01_good_frames_before_a_bad_size_are_given_first() -> None:
    reader = FrameReader(1000)
    stream = frame(b"good") + struct.pack(">i", -5)
    reader.get_buffer()[: len(stream)] = stream
    frames = reader.feed(len(stream))
    assert bytes(next(frames)) == b"good"
    with pytest.raises(RemoteProtocolError):
        next(frames)


def test_m_12_memory_follows_what_arrived_not_what_was_announced() -> None:
    reader = FrameReader(100_000_000)
    assert reader.capacity == 0
    receive(reader, struct.pack(">i", 99_000_000))
    assert reader.capacity == framing.SMALLEST_BUFFER
    received = 4
    while received < 3_000_000:
        receive(reader, bytes(10_000))
        received += 10_000
        assert reader.capacity <= max(2 * received, framing.SMALLEST_BUFFER)


def test_m_12_an_idle_connection_holds_no_buffer() -> None:
    reader = FrameReader(10_000_000)
    receive(reader, frame(bytes(2_000_000)))
    assert reader.capacity >= 2_000_000
    reader.release()
    assert reader.capacity == 0
    assert receive(reader, frame(b"again")) == [b"again"]


def test_release_keeps_half_a_frame() -> None:
    reader = FrameReader(1000)
    receive(reader, frame(b"abcdef")[:7])
    reader.release()
    assert receive(reader, frame(b"abcdef")[7:]) == [b"abcdef"]


def test_the_buffer_shrinks_when_only_small_frames_come() -> None:
    reader = FrameReader(10_000_000)
    receive(reader, frame(bytes(2_000_000)))
    for _ in range(10 * framing.READS_BEFORE_SHRINKING):
        assert receive(reader, frame(b"small")) == [b"small"]
    assert reader.capacity <= 2 * framing.SMALLEST_BUFFER


def test_the_buffer_grows_for_many_small_frames_up_to_a_bound() -> None:
    reader = FrameReader(10_000_000)
    assert len(receive(reader, frame(bytes(100)) * 50_000)) == 50_000
    assert reader.capacity == framing.BATCHING_BUFFER


def test_a_large_frame_is_read_to_its_end_and_no_further() -> None:
    """So that the next one starts at the front of the buffer and need not be moved."""
    reader = FrameReader(10_000_000)
    receive(reader, frame(bytes(3_000_000)))
    room = reader.get_buffer()
    start = frame(bytes(1_000_000))[:100_000]
    room[: len(start)] = start
    assert list(reader.feed(len(start))) == []
    assert len(reader.get_buffer()) == 1_000_004 - 100_000


def test_frames_not_taken_yet_are_given_later() -> None:
    reader = FrameReader(1000)
    stream = frame(b"1") + frame(b"2") + frame(b"3")
    reader.get_buffer()[: len(stream)] = stream
    assert bytes(next(reader.feed(len(stream)))) == b"1"
    assert [bytes(view) for view in reader.frames()] == [b"2", b"3"]


def test_reading_on_over_untaken_frames_until_nothing_fits_is_our_mistake() -> None:
    reader = FrameReader(1000)
    room = reader.get_buffer()
    room[:] = (frame(b"x" * 12) * (len(room) // 16 + 1))[: len(room)]
    reader.feed(len(room))
    with pytest.raises(LocalProtocolError):
        reader.get_buffer()


def take_one(reader: FrameReader, body: bytes, behind: bytes = b"") -> memoryview:
    """Receive a frame and what follows it, and keep the frame."""
    stream = frame(body) + behind
    kept = None
    while stream:
        room = reader.get_buffer()
        count = min(len(room), len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        for view in reader.feed(count):
            kept = kept or reader.keep(view)
    assert kept is not None
    return kept


@pytest.mark.parametrize("size", [10, framing.EXACT_READ, 200_000, 1_000_000])
def test_frames_kept_stay_as_they_are(size: int) -> None:
    reader = FrameReader(10_000_000)
    bodies = [bytes([number]) * (size + number) for number in range(12)]
    kept = [take_one(reader, body) for body in bodies]
    assert [bytes(view) for view in kept] == bodies


def test_buffers_whose_frames_nobody_holds_are_used_again() -> None:
    reader = FrameReader(10_000_000)
    body = bytes(300_000)
    take_one(reader, body)
    seen = set()
    for _ in range(20):
        kept = take_one(reader, body)
        seen.add(id(kept.obj))
        held = kept  # the newest is held until the next has come  # noqa: F841
        del kept
    assert len(seen) <= 1 + framing.KEPT_FOR_REUSE


def test_what_follows_a_frame_kept_is_not_lost() -> None:
    reader = FrameReader(10_000_000)
    take_one(reader, bytes(300_000))
    body, follows = b"x" * 299_000, frame(b"next") + frame(b"one after")
    room = reader.get_buffer()
    stream = frame(body) + follows[:13]
    room[: len(stream)] = stream
    frames = reader.feed(len(stream))
    kept = reader.keep(next(frames))
    assert [bytes(view) for view in frames] == [b"next"]
    assert receive(reader, follows[13:]) == [b"one after"]
    assert bytes(kept) == body


def test_m_12_an_idle_connection_forgets_buffers_given_away() -> None:
    reader = FrameReader(10_000_000)
    for _ in range(3):
        take_one(reader, bytes(300_000))
    reader.release()
    first = take_one(reader, bytes(300_000))
    assert reader.capacity >= 300_000
    assert bytes(first[:1]) == b"\0"
