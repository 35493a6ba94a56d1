"""The bytes held in all connections together, and who is paused or cut when they are too many.

Owns the two accounts of `holdings.py`, their caps, and one timer that runs while anybody holds
anything. Whoever holds the memory pays for it: nobody else is paused or closed.

    responses   over the cap, the oldest holders are cut; before that, fetches get less at a time
    requests    a frame that wants more than there is waits, unread, for room; who is read from
                and finishes nothing for a while is cut for the sake of those who wait; the oldest
                frame goes on beyond the cap, so that those that are left come to an end; by no
                more in all than one frame may have
    both        a peer that owes bytes, or takes none, for the time of a stall is cut

Frames of up to `FREE_BYTES` are not counted and never wait, nor does a small frame wait for the
memory that only large ones use up.
"""

from collections.abc import Callable, Collection
from typing import Final, NamedTuple, Protocol

from .holdings import NOT_UNDER_WAY, Holder, Holdings

FREE_BYTES: Final = 64 << 10
"""Bytes of each kind that a connection may hold without being counted."""
SMALL_BYTES: Final = 256 << 10
"""Receive buffers above this size leave a quarter of the cap to smaller ones, in any case."""
PATIENCE_MS: Final = 5_000
"""Milliseconds for which memory that others wait for may be held without finishing a request."""
SWEEP_MS: Final = 1_000
RESPONSE_PART: Final = 8
"""A fetch gets at most this part of the room that is left, and at least `LEAST_RESPONSE`."""
LEAST_RESPONSE: Final = 256 << 10


class Peer(Holder, Protocol):
    """A connection, as far as its memory is concerned."""

    started: int
    """Requests handled so far."""

    @property
    def half_received(self) -> int:
        """Bytes of a frame whose rest its peer owes; 0 if none, or if we do not read on."""

    @property
    def unsent(self) -> int:
        """Bytes that its peer has yet to take; 0 if they are too few to be counted."""

    def shed(self) -> None:
        """Give back what is held for speed only."""

    def cut(self, why: str) -> None:
        """End the connection: another needs the memory, or nothing moves any more."""

    def wake(self) -> None:
        """Ask once more: there is room again."""


class Caps(NamedTuple):
    """Bounds in bytes."""

    requests: int
    responses: int
    frame: int
    """The cap of one request."""


class Load:
    """The memory of the edge. `later(delay_ms, call)` is its timer."""

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
        """Peers whose frame waits for room, with the bytes that it needs."""
        self.response_room = 0
        """The most that one more fetch should read, in bytes."""
        self._note_room()

    @property
    def request_bytes(self) -> int:
        """Requests not yet handled, with the buffers that they arrive in."""
        return self._requests.total

    @property
    def response_bytes(self) -> int:
        """Responses not yet taken, and what parked fetches have read."""
        return self._responses.total

    @property
    def waiting_count(self) -> int:
        """Connections whose frame waits, unread, for room."""
        return len(self._waiting)

    def hold_requests(self, peer: Peer, size: int) -> None:
        """Note what a connection holds of requests and buffers for them now."""
        before = self._requests.total
        self._requests.hold(peer, size if size > FREE_BYTES else 0, self._now_ms())
        if self._requests.total < before:
            self._relieve()
        self._sweep_later()

    def hold_responses(self, peer: Peer, size: int) -> None:
        """Note the bytes of responses that a connection holds; may cut it or others."""
        now_ms = self._now_ms()
        self._responses.hold(peer, size, now_ms)
        self._note_room()
        excess = self._responses.total - self.caps.responses
        if excess > 0:
            for holder in self._responses.in_the_way(excess, now_ms, 0):
                self._cut(holder, "responses that it does not read fill the memory for them")
        self._sweep_later()

    def may_grow(self, peer: Peer, capacity: int) -> bool:
        """True if the peer's receive buffer of `capacity` bytes may become twice as large.

        If not, `wake` is called when there is a chance that it may.
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
        """The connection is gone, and all it held."""
        self._waiting.pop(peer, None)
        now_ms = self._now_ms()
        self._responses.hold(peer, 0, now_ms)
        self._note_room()
        self._requests.hold(peer, 0, now_ms)
        self._relieve()

    def _excess(self, more: int) -> int:
        """Return by how much `more` bytes of requests exceed the cap for a buffer of that size."""
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
        """True if its frame is the oldest, and those before it left room for one whole frame."""
        more = min(capacity, self.caps.frame - capacity)
        excess = self._requests.total + more - self.caps.requests
        unfinished = (each for each in self._requests if each is peer or each.half_received)
        return excess <= self.caps.frame and next(unfinished, peer) is peer

    def _cut(self, peer: Peer, why: str) -> None:
        self.forget(peer)
        peer.cut(why)

    def _relieve(self) -> None:
        """Let those ask again who came first, as far as there is room."""
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
        """Look at all holders of memory; connections without any cost nothing."""
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
            # Those that want little find room where the first does not; the oldest needs none.
            if self._excess(given + wanted) <= 0 or self._may_exceed(peer, wanted):
                given += wanted
                self._ask_again(peer)
        self._sweep_later()
