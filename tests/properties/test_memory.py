"""Any peers that hold memory in any way: the sum is bounded, and who behaves is served."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from minikafka.broker.admission.load import FREE_BYTES, LEAST_RESPONSE, PATIENCE_MS, SMALL_BYTES

from ..broker.load_support import (
    FRAME_MAX,
    REQUESTS,
    RESPONSES,
    STALL_MS,
    Edge,
    FakePeer,
    MiB,
)

pytestmark = pytest.mark.slow

HOGS = 24
PLACES = st.integers(0, HOGS - 1)
SIZES = st.sampled_from([1, FREE_BYTES, FREE_BYTES + 1, SMALL_BYTES, MiB, 5 * MiB, FRAME_MAX])


class Memory(RuleBasedStateMachine):
    """Peers that do as they like, and one that sends whole requests and reads what it is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.edge = Edge()
        self.hogs = [FakePeer(self.edge) for _ in range(HOGS)]
        self.healthy = FakePeer(self.edge)
        self.follower = FakePeer(self.edge, is_replica=True)
        self.served_ms = 0

    @rule(place=PLACES, size=SIZES)
    def half_a_frame(self, place: int, size: int) -> None:
        hog = self.hog(place)
        if not hog.is_waiting:
            hog.receive(size)

    @rule(place=PLACES)
    def a_whole_frame(self, place: int) -> None:
        hog = self.hog(place)
        if not hog.is_waiting and hog.buffered:
            hog.finish()

    @rule(place=PLACES, size=SIZES)
    def a_response_is_not_read(self, place: int, size: int) -> None:
        self.hog(place).leave_unread(min(size, self.edge.load.response_room))

    @rule(place=PLACES)
    def some_of_a_response_is_read(self, place: int) -> None:
        hog = self.hog(place)
        hog.unsent = max(0, hog.unsent - 1000)

    def hog(self, place: int) -> FakePeer:
        """One that was cut is there again at once."""
        if self.hogs[place].cut_because is not None:
            self.hogs[place] = FakePeer(self.edge)
        return self.hogs[place]

    @rule(ms=st.sampled_from([1, 100, 1000, PATIENCE_MS, STALL_MS]))
    def time_passes(self, ms: int) -> None:
        for _ in range(0, ms, 500):
            self.edge.pass_ms(min(500, ms))
            self.the_healthy_one_goes_on()

    @rule()
    def the_healthy_one_goes_on(self) -> None:
        peer, now_ms = self.healthy, self.edge.now_ms
        if not peer.is_waiting and peer.receive(SMALL_BYTES):
            peer.finish()
            self.served_ms = now_ms
        peer.leave_unread(LEAST_RESPONSE)
        peer.leave_unread(0)

    @rule()
    def a_follower_falls_behind(self) -> None:
        self.follower.leave_unread(MiB)
        self.follower.leave_unread(0)

    @invariant()
    def the_sum_is_bounded(self) -> None:
        load = self.edge.load
        assert load.response_bytes <= RESPONSES
        assert load.request_bytes <= REQUESTS + FRAME_MAX, "one frame beyond it"

    @invariant()
    def who_behaves_is_never_cut_and_soon_served(self) -> None:
        assert self.healthy.cut_because is None
        assert self.follower.cut_because is None
        assert self.edge.now_ms - self.served_ms <= 2 * PATIENCE_MS


def test_whatever_peers_do_the_sum_is_bounded_and_who_behaves_is_served() -> None:
    run_state_machine_as_test(
        Memory, settings=settings(max_examples=200, stateful_step_count=80, deadline=None)
    )
