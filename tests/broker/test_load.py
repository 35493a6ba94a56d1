"""The account of memory: who holds it is paused or cut, and nobody else."""

import pytest

from minikafka.broker.admission.load import FREE_BYTES, LEAST_RESPONSE, PATIENCE_MS, SMALL_BYTES
from minikafka.protocol.framing import SMALLEST_BUFFER

from .load_support import FRAME_MAX, REQUESTS, STALL_MS, Edge, FakePeer, MiB


@pytest.fixture
def edge() -> Edge:
    return Edge()


def test_responses_beyond_the_cap_cost_the_oldest_holders_their_connections(edge: Edge) -> None:
    peers = [FakePeer(edge) for _ in range(6)]
    for peer in peers:
        peer.leave_unread(3 * MiB)
        edge.pass_ms(1)
    assert [peer.cut_because is not None for peer in peers] == [True] * 4 + [False] * 2
    assert edge.load.response_bytes == 6 * MiB


def test_a_follower_is_not_cut_for_the_memory_of_others(edge: Edge) -> None:
    follower, hog = FakePeer(edge, is_replica=True), FakePeer(edge)
    follower.leave_unread(3 * MiB)
    hog.leave_unread(6 * MiB)
    assert follower.cut_because is None
    assert hog.cut_because is not None


def test_fetches_get_less_at_a_time_the_less_room_there_is() -> None:
    edge = Edge(responses=512 * MiB)
    assert edge.load.response_room == 64 * MiB
    for _ in range(1000):
        FakePeer(edge).leave_unread(min(55 * MiB, edge.load.response_room))
    assert edge.load.response_room == LEAST_RESPONSE
    assert edge.load.response_bytes <= 512 * MiB


def test_who_takes_nothing_is_cut_and_who_takes_a_little_is_not(edge: Edge) -> None:
    hung, slow = FakePeer(edge), FakePeer(edge)
    hung.leave_unread(MiB)
    slow.leave_unread(MiB)
    for _ in range(4):
        edge.pass_ms(STALL_MS // 3)
        slow.unsent -= 1000
    assert hung.cut_because is not None
    assert "took no byte" in hung.cut_because
    assert slow.cut_because is None


def test_half_a_frame_whose_rest_does_not_come_is_cut(edge: Edge) -> None:
    half, waits = FakePeer(edge), FakePeer(edge)
    half.receive(100_000)
    waits.receive(100_000)
    waits.finish()
    edge.load.hold_requests(waits, 100_000)  # Whole requests, behind a long poll.
    edge.pass_ms(STALL_MS + 2_000)
    assert half.cut_because is not None
    assert "no byte of the rest" in half.cut_because
    assert waits.cut_because is None


def test_small_requests_never_wait_for_what_large_ones_hold(edge: Edge) -> None:
    hogs = [FakePeer(edge) for _ in range(10)]
    for hog in hogs:
        hog.receive(15 * MiB)
    assert any(hog.is_waiting for hog in hogs)
    small = [FakePeer(edge) for _ in range(20)]
    assert all(peer.receive(FREE_BYTES) for peer in small)
    middle = FakePeer(edge)
    assert middle.receive(SMALL_BYTES), "a quarter is left for those"
    assert edge.load.request_bytes <= REQUESTS + 16 * MiB


def test_large_frames_wait_and_those_that_stand_in_their_way_are_cut(edge: Edge) -> None:
    hogs = [FakePeer(edge) for _ in range(4)]
    for hog in hogs:
        hog.receive(8 * MiB - 1)
    healthy = FakePeer(edge)
    assert not healthy.receive(2 * MiB)
    for _ in range(20):
        edge.pass_ms(1000)
        if not healthy.is_waiting and healthy.receive(2 * MiB):
            break
    else:
        pytest.fail("a healthy request never had its turn")
    assert healthy.cut_because is None
    assert edge.now_ms <= PATIENCE_MS + 2_000


def test_whoever_asks_for_room_is_not_cut_for_it(edge: Edge) -> None:
    asking, other = FakePeer(edge), FakePeer(edge)
    asking.receive(4 * MiB)
    other.receive(8 * MiB)
    edge.pass_ms(PATIENCE_MS)
    assert asking.receive(4 * MiB + 1)
    assert asking.cut_because is None
    assert other.cut_because is not None


def test_the_time_of_whoever_waited_for_room_begins_when_there_is_some(edge: Edge) -> None:
    hog, waiting, next_one = (FakePeer(edge) for _ in range(3))
    hog.receive(8 * MiB)
    waiting.receive(4 * MiB)
    assert not waiting.receive(4 * MiB + 1)
    edge.pass_ms(PATIENCE_MS)
    assert hog.cut_because is not None
    assert not waiting.is_waiting
    next_one.receive(8 * MiB)
    assert not next_one.receive(8 * MiB + 1)
    assert waiting.cut_because is None


def test_large_frames_that_fill_the_memory_together_all_come_to_an_end(edge: Edge) -> None:
    """None of them could grow: the oldest goes on beyond the cap, then the next."""
    peers = [FakePeer(edge) for _ in range(12)]
    sizes = [SMALLEST_BUFFER << step for step in range(10)]
    for size in sizes:
        for peer in peers:
            if not peer.is_waiting:
                peer.receive(size)
    assert any(peer.is_waiting for peer in peers)
    for _ in range(40):
        for peer in peers:
            if not peer.started and not peer.is_waiting and peer.receive(8 * MiB):
                peer.finish()
        edge.pass_ms(1000)
    assert [peer.started for peer in peers] == [1] * 12
    assert [peer.cut_because for peer in peers] == [None] * 12


def test_those_who_went_on_beyond_the_cap_leave_no_more_of_it_to_others(edge: Edge) -> None:
    """Each finishes its large frame as the oldest, and holds the buffer with half of the next."""
    peers = [FakePeer(edge) for _ in range(8)]
    for peer in peers:
        peer.receive(FREE_BYTES + 1)
    for _ in range(3):
        for peer in peers:
            if peer.cut_because is None and not peer.is_waiting and peer.receive(FRAME_MAX):
                peer.finish()
                peer.receive(FRAME_MAX - 1)
            assert edge.load.request_bytes <= REQUESTS + FRAME_MAX
            edge.pass_ms(1000)


def test_what_is_held_for_speed_only_is_given_back_and_then_no_timer_runs(edge: Edge) -> None:
    peer = FakePeer(edge)
    peer.receive(4 * MiB)
    peer.finish()
    assert edge.timers
    edge.pass_ms(10_000)
    assert peer.capacity == SMALLEST_BUFFER
    assert edge.load.request_bytes == 0
    assert not edge.timers


def test_whoever_is_gone_is_forgotten(edge: Edge) -> None:
    peers = [FakePeer(edge) for _ in range(4)]
    for peer in peers:
        peer.receive(16 * MiB)
        peer.leave_unread(MiB)
    assert any(peer.is_waiting for peer in peers)
    for peer in peers:
        edge.load.forget(peer)
    assert edge.load.request_bytes == edge.load.response_bytes == 0
