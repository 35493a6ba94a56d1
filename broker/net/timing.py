"""Counts the requests of each API, and times a sample of them, if metrics are served.

Every request is counted, but only one read event in SAMPLE_MS is timed, because timing costs a few
percent of a small request. A request that is answered in the read event in which it came is counted
with that event's duration. The time for which a request waits for followers, data or the controller
is its remote time. Kafka's other phases do not exist here, because there are no queues between
threads: a request is handled as its bytes arrive, and its answer is written when the event ends.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ...protocol.api import ApiKey
from ...protocol.schema import REQUESTS, shape_of
from ...runtime.metrics import Durations

if TYPE_CHECKING:
    from .connection import Connection

SAMPLE_MS: Final = 10
"""Milliseconds of the wall clock between two events that are timed, over all connections."""
ERRORS_LOOKED_AT: Final = 1_000
"""The most error codes of one response that are checked."""
FRAME_LENGTH_BYTES: Final = 4
UNSPOKEN: Final = -1
"""The API key, and the version, under which unsupported requests are counted."""
_CODES: Final = ("error_code", "partition_error_code")


class Counted:
    """The number and bytes of requests to one API in one version since the start."""

    __slots__ = ("api", "byte_count", "count", "version")

    def __init__(self, version: int, api: object = None) -> None:
        """`api` is the API's row in the dispatch table; a request is recognised by this object."""
        self.api = api
        self.version = version
        self.count = 0
        self.byte_count = 0
        """Bytes of the requests' frames."""


class ApiTimes:
    """The durations of a sample of the requests to one API."""

    __slots__ = ("remote", "total")

    def __init__(self) -> None:
        self.total = Durations()
        """The time from the read event of a request until its answer was passed to the system."""
        self.remote = Durations()
        """The time for which a request waited for followers, data or the controller, if it did."""


class RequestTimes:
    """Counts and times of the requests to all APIs of a broker, by Kafka's names for them."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        """`now_us` is a monotonic clock in microseconds."""
        self.now_us = now_us
        self.gone: dict[tuple[str, int], Counted] = {}
        """The requests of closed connections, by name and version."""
        self.timed: dict[str, ApiTimes] = {}
        self.errors: dict[tuple[str, int], int] = {}
        """The number of errors in responses, by request and code; each item of one counts."""
        self.due_ms = 0
        """The wall time, in ms, from which on the next event is timed. Each scrape sets it to 0, so
        that timing continues after the clock was set back."""

    def begin(self, connection: "Connection") -> None:
        """Time the event that begins now, unless an earlier one is still being timed."""
        if connection.stopwatch is None:
            self.due_ms = connection.wall_ms + SAMPLE_MS
            connection.stopwatch = Stopwatch(self, connection.started, len(connection.waiting))

    def of(self, name: str) -> ApiTimes:
        """Return the times of the requests of that name; create them at the first call."""
        times = self.timed.get(name)
        if times is None:
            times = self.timed[name] = ApiTimes()
        return times

    def note_error(self, name: str, code: int) -> None:
        """Count an error in the response to a request of that name."""
        key = (name, code)
        self.errors[key] = self.errors.get(key, 0) + 1

    def note_errors(self, answer: object) -> None:
        """Count the errors in a response."""
        for code in islice(_codes(answer), ERRORS_LOOKED_AT):
            if code:
                self.note_error(type(answer).__name__.removesuffix("Response"), code)


class Stopwatch:
    """Times the requests that came in one read event of a connection, until all are answered."""

    __slots__ = (
        "_began_us",
        "_decoded",
        "_ended_us",
        "_name",
        "_older",
        "_ours",
        "_started",
        "_times",
        "_waiting",
    )

    def __init__(self, times: RequestTimes, started: int, waiting: int) -> None:
        """Start when an event begins.

        `started` is the number of requests handled so far; `waiting` of them are unanswered.
        """
        self._times = times
        self._began_us = times.now_us()
        self._ended_us: int | None = None
        self._started = started
        self._waiting = self._older = waiting
        self._ours = 0
        """The requests of the event that still wait; `_older` are those from before the event."""
        self._name = PRODUCE
        self._decoded: list[tuple[str, bool, int]] = []

    def note(self, connection: "Connection", key: int, *, waits: bool = False) -> None:
        """Note a decoded request; `waits` is True if its answer may come later."""
        name = name_of(key, is_replica=connection.is_replica)
        self._decoded.append((name, waits, connection.started))

    def end(self, started: int, waiting: int) -> bool:
        """Note the time when an event ends; return True once all timed requests are answered."""
        now_us = self._times.now_us()
        if not waiting and self._ended_us is None:
            return self._end_at_once(now_us - self._began_us, started - self._started)
        decoded, self._decoded = self._decoded, []
        came = Counter({PRODUCE: started - self._started - len(decoded)})
        came.update(name for name, _, _ in decoded)
        at_once = sum(not waits for _, waits, _ in decoded)
        # Answers are sent in order, so the requests of this event are the last that wait.
        left = min(waiting, started - self._started - at_once)
        answered = self._waiting - (waiting - left)
        self._started, self._waiting = started, waiting
        older = min(self._older, answered)
        self._older -= older
        if self._ended_us is None:
            self._ended_us = now_us
            if decoded and decoded[-1][-1] == started:
                self._name = decoded[-1][0]  # Only Produce overlaps, so one name is enough.
            self._ours = left
            came[self._name] -= left
            for name, count in came.items():
                if count > 0:
                    self._times.of(name).total.record(now_us - self._began_us, count)
        elif ours := min(self._ours, answered - older):
            self._ours -= ours
            times = self._times.of(self._name)
            times.total.record(now_us - self._began_us, ours)
            times.remote.record(now_us - self._ended_us, ours)
        return not self._ours

    def _end_at_once(self, took_us: int, count: int) -> bool:
        """Note that all `count` requests of the event are answered, the usual case; return True."""
        for name, _, _ in self._decoded:
            self._times.of(name).total.record(took_us)
        if repeated := count - len(self._decoded):
            self._times.of(PRODUCE).total.record(took_us, repeated)
        return True


class Meter:
    """Counts the requests of one connection.

    Produce requests that are recognised without decoding are not counted one by one: their number
    and bytes are the totals less all other requests.
    """

    __slots__ = ("_produced", "_spoken", "latest", "received", "times")

    def __init__(self, times: RequestTimes) -> None:
        self.times = times
        self.received = 0
        """All bytes that were received."""
        self.latest = Counted(UNSPOKEN)
        """The count of the latest decoded request. `Connection` raises the count itself."""
        self._produced: Counted | None = None
        """The decoded Produce requests in the latest version that the peer has used."""
        self._spoken: dict[tuple[int, int], Counted] = {}
        """The decoded requests by API and version."""

    def turn_to(self, api: object, key: int, version: int) -> Counted:
        """Return the count for a request whose API or version differs from the latest one's."""
        counted = self._spoken.setdefault((key, version), Counted(version, api))
        self.latest = counted
        if key == ApiKey.PRODUCE:
            self._produced = counted
        return counted

    def note_unspoken(self, connection: "Connection", size: int) -> None:
        """Count a request whose API or version is not supported."""
        counted = self.turn_to(None, UNSPOKEN, UNSPOKEN)
        counted.count += 1
        counted.byte_count += size
        if connection.stopwatch is not None:
            connection.stopwatch.note(connection, UNSPOKEN)

    def counts(self, connection: "Connection") -> Iterator[tuple[tuple[str, int], int, int]]:
        """Yield (name, version), requests and bytes; half-received bytes count as Produce."""
        repeated = connection.started
        repeated_bytes = self.received - FRAME_LENGTH_BYTES * repeated
        for (key, _), counted in self._spoken.items():
            name = name_of(key, is_replica=connection.is_replica)
            yield (name, counted.version), counted.count, counted.byte_count
            repeated -= counted.count
            repeated_bytes -= counted.byte_count
        if self._produced is not None and repeated:
            yield (PRODUCE, self._produced.version), repeated, max(0, repeated_bytes)

    def close(self, connection: "Connection") -> None:
        """Add the counts of a closed connection to those of the broker."""
        for kind, count, byte_count in self.counts(connection):
            counted = self.times.gone.setdefault(kind, Counted(kind[1]))
            counted.count += count
            counted.byte_count += byte_count


def name_of(key: int, *, is_replica: bool = False) -> str:
    """Return Kafka's name of a request in metrics, with two names for Fetch."""
    if key == ApiKey.FETCH:
        return "FetchFollower" if is_replica else "FetchConsumer"
    return _name_of(key)


@cache
def _name_of(key: int) -> str:
    return "Unspoken" if key == UNSPOKEN else REQUESTS[key].__name__.removesuffix("Request")


PRODUCE: Final = "Produce"


def _codes(message: Any) -> Iterator[int]:
    own, arrays = _places(message.__class__)
    for name in own:
        yield getattr(message, name)
    for name in arrays:
        for item in getattr(message, name) or ():
            yield from _codes(item)


@cache
def _places(cls: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a message's fields that are error codes, and its fields whose items may have some."""
    own: list[str] = []
    arrays: list[str] = []
    for field in shape_of(cls).fields:
        items = field.element.items
        if field.name in _CODES:
            own.append(field.name)
        elif items is not None and items.struct is not None and any(_places(items.struct)):
            arrays.append(field.name)
    return tuple(own), tuple(arrays)
