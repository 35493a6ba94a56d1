"""The accounting of memory with a clock that the test sets, and peers without a network."""

from collections.abc import Callable

from minikafka.broker.admission.load import Caps, Load
from minikafka.protocol.framing import SMALLEST_BUFFER

MiB = 1 << 20
REQUESTS, RESPONSES, FRAME_MAX, STALL_MS = 16 * MiB, 8 * MiB, 16 * MiB, 30_000


class Edge:
    """A clock that the test sets, and the account of memory."""

    def __init__(self, *, requests: int = REQUESTS, responses: int = RESPONSES) -> None:
        self.now_ms = 0
        self.timers: list[tuple[int, Callable[[], None]]] = []
        self.load = Load(
            caps=Caps(requests, responses, FRAME_MAX),
            stall_ms=STALL_MS,
            now_ms=lambda: self.now_ms,
            later=lambda delay_ms, call: self.timers.append((self.now_ms + delay_ms, call)),
        )

    def pass_ms(self, ms: int) -> None:
        """Advance the clock, and run the timers that are due."""
        end = self.now_ms + ms
        while due := [timer for timer in self.timers if timer[0] <= end]:
            timer = min(due, key=lambda each: each[0])
            self.timers.remove(timer)
            self.now_ms = timer[0]
            timer[1]()
        self.now_ms = end


class FakePeer:
    """A connection: its receive buffer doubles as frames arrive, as the frame reader's does."""

    def __init__(self, edge: Edge, *, is_replica: bool = False) -> None:
        self.edge = edge
        self.is_replica = is_replica
        self.started = 0
        self.unsent = 0
        self.buffered = 0
        self.capacity = SMALLEST_BUFFER
        self.is_waiting = False
        self.cut_because: str | None = None

    @property
    def half_received(self) -> int:
        return 0 if self.is_waiting else self.buffered

    def receive(self, size: int) -> bool:
        """Take bytes of one frame until `size` are there; False if it must wait, or was cut."""
        while self.cut_because is None and self.buffered < size:
            if self.buffered == self.capacity:
                self.is_waiting = not self.edge.load.may_grow(self, self.capacity)
                if self.is_waiting:
                    return False
                self._resize(2 * self.capacity)
            self.buffered = min(size, self.capacity)
        return self.cut_because is None

    def finish(self) -> None:
        """The frame is whole, and handled."""
        self.buffered = 0
        self.started += 1

    def leave_unread(self, size: int) -> None:
        self.unsent = size
        self.edge.load.hold_responses(self, size)

    def shed(self) -> None:
        if not self.buffered and self.capacity > SMALLEST_BUFFER:
            self._resize(SMALLEST_BUFFER)

    def cut(self, why: str) -> None:
        assert self.cut_because is None
        self.cut_because = why

    def wake(self) -> None:
        self.is_waiting = False

    def _resize(self, capacity: int) -> None:
        self.capacity = capacity
        self.edge.load.hold_requests(self, capacity)
