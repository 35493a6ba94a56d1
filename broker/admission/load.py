"""Limits the memory of all connections together, by pausing or closing those that hold it.

`Load` owns the two accounts of `holdings.py`, their caps, and one timer that runs while any
connection holds memory. A frame is one request.

    responses   Over the cap, the connections that have held bytes for longest are closed. Below
                the cap, the less room is left, the less a fetch may read.
    requests    A frame for which there is no room waits, unread. While frames wait, a connection
                is closed if it is read from but finishes no request for `PATIENCE_MS`. The oldest
                unfinished frame may exceed the cap, so that some request can always finish; the
                excess is at most the size of one frame.
    both        A connection with a half-received frame or unsent bytes is closed if none of its
                bytes move for `stall_ms`.

Frames of up to `FREE_BYTES` are not counted and never wait. Large frames cannot use the last
quarter of the cap, so that small frames need not wait for them.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from .holdings import NOT_UNDER_WAY, Holder, Holdings

FREE_BYTES: Final = 64 << 10
"""Bytes of requests that a connection may hold without being counted."""
SMALL_BYTES: Final = 256 << 10
"""Receive buffers above this size always leave a quarter of the cap to smaller ones."""
PATIENCE_MS: Final = 5_000
"""Milliseconds for which a connection may hold memory that others wait for, without finishing a
request."""
SWEEP_MS: Final = 1_000
RESPONSE_PART: Final = 8
"""A fetch may read the free response memory divided by RESPONSE_PART, but at least `LEAST_RESPONSE`
bytes.
"""
LEAST_RESPONSE: Final = 256 << 10


class Peer(Holder, Protocol):
    """A connection that holds memory for requests and responses."""

    started: int
    """The number of requests handled so far."""

    @property
    def half_received(self) -> int:
        """Bytes of a frame whose rest has not arrived; 0 if there is none or reading is paused."""

    @property
    def unsent(self) -> int:
        """Bytes that the peer has not taken yet; 0 if they are too few to be counted."""

    def shed(self) -> None:
        """Free the receive buffer if it is empty; it is only kept for speed."""

    def cut(self, why: str) -> None:
        """Close the connection, because others need its memory or no bytes of it move."""

    def wake(self) -> None:
        """Have the connection call `may_grow` again, because memory may be free now."""


class Caps(NamedTuple):
    """Limits in bytes: of all requests, of all responses, and of one request's frame."""

    requests: int
    responses: int
    frame: int
    """The largest size of one request."""


class Load:
    """Counts the memory that connections hold, and limits it.

    `later(delay_ms, call)` schedules `call` after `delay_ms`.
    """

    def __init__(
        self,
        *,
        caps: Caps,
        stall_ms: int,
        now_ms: Callable[[], int],
        later: Callable[[int, Callable[[], None]], object],
    ) -> None:
        self.caps = caps
        self._stall_ms = stall_ms
        self._now_ms = now_ms
        self._later = later
        self._patience_ms = min(PATIENCE_MS, stall_ms)
        self._is_sweeping = False
        self._requests: Holdings[Peer] = Holdings(
            lambda peer: (peer.started, peer.half_received), SMALL_BYTES
        )
        self._responses: Holdings[Peer] = Holdings(
            lambda peer: (NOT_UNDER_WAY, peer.unsent), SMALL_BYTES
        )
        self._waiting: dict[Peer, int] = {}
        """The peers whose frames wait for memory, with the bytes that each needs."""
        self.response_room = 0
        """The most bytes that the next fetch of a consumer may read."""
        self._note_room()

    @property
    def request_bytes(self) -> int:
        """Bytes of requests not yet handled, with the buffers in which they arrive."""
        return self._requests.total

    @property
    def response_bytes(self) -> int:
        """Bytes of responses not taken yet, and of records that waiting fetches have read."""
        return self._responses.total

    @property
    def waiting_count(self) -> int:
        """The number of connections with an unread frame that waits for memory."""
        return len(self._waiting)

    def hold_requests(self, peer: Peer, size: int) -> None:
        """Set the bytes of requests and receive buffers that a connection holds now."""
        before = self._requests.total
        self._requests.hold(peer, size if size > FREE_BYTES else 0, self._now_ms())
        if self._requests.total < before:
            self._relieve()
        self._sweep_later()

    def hold_responses(self, peer: Peer, size: int) -> None:
        """Set the bytes of responses that a connection holds now; may close it or others."""
        now_ms = self._now_ms()
        self._responses.hold(peer, size, now_ms)
        self._note_room()
        excess = self._responses.total - self.caps.responses
        if excess > 0:
            for holder in self._responses.in_the_way(excess, now_ms, 0):
                self._cut(holder, "responses that it does not read fill the memory for them")
        self._sweep_later()

    def may_grow(self, peer: Peer, capacity: int) -> bool:
        """True if the peer's receive buffer of `capacity` bytes may double.

        Otherwise the peer's `wake` is called when there may be memory for it.
        """
        if peer.is_replica or 2 * capacity <= FREE_BYTES:
            return True
        if self._excess(capacity) > 0 and not self._waiting:
            # Where others wait already, the next sweep makes room.
            self._make_room(capacity, (peer,))
        if self._excess(capacity) > 0 and not self._may_exceed(peer, capacity):
            self._waiting[peer] = capacity
            return False
        self._waiting.pop(peer, None)
        return True

    def forget(self, peer: Peer) -> None:
        """Remove a closed connection from both accounts."""
        self._waiting.pop(peer, None)
        now_ms = self._now_ms()
        self._responses.hold(peer, 0, now_ms)
        self._note_room()
        self._requests.hold(peer, 0, now_ms)
        self._relieve()

    def _excess(self, more: int) -> int:
        """Return the bytes by which requests exceed the cap if a buffer of `more` bytes doubles."""
        cap, held = self.caps.requests, self._requests
        for_large = cap - cap // 4
        if more >= SMALL_BYTES:
            return held.total + more - for_large
        return held.total - max(0, held.large - for_large) + more - cap

    def _make_room(self, more: int, asking: Collection[Peer]) -> None:
        now_ms = self._now_ms()
        self._shed()
        self._requests.look(now_ms)
        excess = self._excess(more)
        for holder in self._requests.in_the_way(excess, now_ms, self._patience_ms, asking):
            self._cut(holder, "its unfinished requests fill the memory that others wait for")

    def _note_room(self) -> None:
        room = (self.caps.responses - self._responses.total) // RESPONSE_PART
        self.response_room = max(room, LEAST_RESPONSE)

    def _shed(self) -> None:
        for holder in self._requests:
            if not holder.half_received:
                holder.shed()

    def _may_exceed(self, peer: Peer, capacity: int) -> bool:
        """True if the peer's unfinished frame is the oldest, and the excess is below one frame."""
        more = min(capacity, self.caps.frame - capacity)
        excess = self._requests.total + more - self.caps.requests
        unfinished = (each for each in self._requests if each is peer or each.half_received)
        return excess <= self.caps.frame and next(unfinished, peer) is peer

    def _cut(self, peer: Peer, why: str) -> None:
        self.forget(peer)
        peer.cut(why)

    def _relieve(self) -> None:
        """Wake the waiting peers in their order, while there is memory for them."""
        given = 0
        while self._waiting:
            peer = next(iter(self._waiting))
            given += self._waiting[peer]
            if self._excess(given) > 0:
                return
            self._ask_again(peer)

    def _ask_again(self, peer: Peer) -> None:
        del self._waiting[peer]
        self._requests.renew(peer, self._now_ms())
        peer.wake()

    def _sweep_later(self) -> None:
        if not self._is_sweeping and (len(self._requests) or len(self._responses)):
            self._is_sweeping = True
            self._later(min(SWEEP_MS, self._stall_ms), self._sweep)

    def _sweep(self) -> None:
        """Close stalled connections, and wake the waiting peers that have room now."""
        self._is_sweeping = False
        now_ms = self._now_ms()
        for holdings in (self._requests, self._responses):
            holdings.look(now_ms)
        for peer in self._requests.stalled(now_ms, self._stall_ms):
            self._cut(peer, f"no byte of the rest of its request came for {self._stall_ms} ms")
        for peer in self._responses.stalled(now_ms, self._stall_ms):
            self._cut(peer, f"it took no byte of its responses for {self._stall_ms} ms")
        self._make_room(next(iter(self._waiting.values()), 0), self._waiting)
        self._relieve()
        given = 0
        for peer, wanted in sorted(self._waiting.items(), key=lambda item: item[1]):
            # A small frame may find room where the first does not; the oldest may exceed the cap.
            if self._excess(given + wanted) <= 0 or self._may_exceed(peer, wanted):
                given += wanted
                self._ask_again(peer)
        self._sweep_later()
