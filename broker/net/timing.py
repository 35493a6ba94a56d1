"""Counts the requests of each API, and times some of them: only where metrics are served.

Every request is counted, but only one read event in SAMPLE_MS is timed, for reading the clock and
sorting what it says costs a few percent of a small request. What is answered in the event in which
it came took that event's time. What waits, for followers, data or the controller, is remote for as
long as it waits. Kafka's other phases mean nothing here: a request is handled as its bytes arrive
and its answer is written as the event ends, so there are no queues between threads.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ...protocol.api import ApiKey
from ...protocol.messages.fetch import FetchResponse
from ...protocol.messages.produce import ProduceResponse
from ...protocol.schema import REQUESTS, shape_of
from ...runtime.metrics import Durations

if TYPE_CHECKING:
    from .connection import Connection

SAMPLE_MS: Final = 10
"""Milliseconds of the wall clock between two events that are timed, over all connections."""
ERRORS_LOOKED_AT: Final = 1_000
"""The most error codes of one answer that are looked at."""
COUNTED_ELSEWHERE: Final = frozenset({FetchResponse, ProduceResponse})
"""Answers whose makers count their errors: looking through them costs as much as making them."""
FRAME_LENGTH_BYTES: Final = 4
UNSPOKEN: Final = -1
"""Stands for an API or a version of one that is not spoken here."""
_CODES: Final = ("error_code", "partition_error_code")


class Counted:
    """The requests to one API in one version since the start."""

    __slots__ = ("byte_count", "count", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.count = 0
        self.byte_count = 0
        """Bytes of their frames."""


class ApiTimes:
    """The durations of requests to one API: a sample."""

    __slots__ = ("remote", "total")

    def __init__(self) -> None:
        self.total = Durations()
        """The time from the event that brought a request until its answer was handed to the
        system."""
        self.remote = Durations()
        """The part of it for which a request waited for somebody else, if it did."""


class RequestTimes:
    """The requests to all APIs of a broker, by Kafka's names for them."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        """`now_us` is a monotonic clock in microseconds."""
        self.now_us = now_us
        self.gone: dict[tuple[str, int], Counted] = {}
        """Requests of connections that are gone, by name and version."""
        self.timed: dict[str, ApiTimes] = {}
        self.errors: dict[tuple[str, int], int] = {}
        """Error codes in answers, by request; each item of an answer counts."""
        self.due_ms = 0
        """Wall clock, in ms, from which on the next event is timed. A scrape sets it to 0: so a
        clock that was set back does not end the timing."""

    def of(self, name: str) -> ApiTimes:
        """Return the times of a request, begun if it is the first of its kind."""
        times = self.timed.get(name)
        if times is None:
            times = self.timed[name] = ApiTimes()
        return times

    def note_error(self, name: str, code: int) -> None:
        """Count an error in the answer to a request of that name."""
        key = (name, code)
        self.errors[key] = self.errors.get(key, 0) + 1

    def note_errors(self, answer: object) -> None:
        """Count the errors in a response, of those that are not COUNTED_ELSEWHERE."""
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
        """The event begins: the connection has handled and awaits so many requests."""
        self._times = times
        self._began_us = times.now_us()
        self._ended_us: int | None = None
        self._started = started
        self._waiting = self._older = waiting
        self._ours = 0
        """Requests of the event that wait; `_older` came before them."""
        self._name = PRODUCE
        self._decoded: list[tuple[str, bool, int]] = []

    def note(self, name: str, number: int, *, waits: bool) -> None:
        """Note a request that was decoded, by its number; `waits`: its answer may come later."""
        self._decoded.append((name, waits, number))

    def end(self, started: int, waiting: int) -> bool:
        """Take the time at the end of an event; True once every request is answered."""
        now_us = self._times.now_us()
        decoded, self._decoded = self._decoded, []
        came = Counter({PRODUCE: started - self._started - len(decoded)})
        came.update(name for name, _, _ in decoded)
        at_once = sum(not waits for _, waits, _ in decoded)
        # Answers leave in order: those that wait of this event came last.
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


class Meter:
    """Counts the requests of one connection, and times an event when one is due.

    A Produce request that is recognised costs nothing here: those are what is left of all requests
    and all bytes when the others are taken off.
    """

    __slots__ = ("_decoded", "_spoken", "received", "stopwatch", "times")

    def __init__(self, times: RequestTimes) -> None:
        self.times = times
        self.received = 0
        """Bytes that came, of all requests."""
        self._decoded: dict[int, Counted] = {}
        """Requests that were not recognised, by API."""
        self._spoken: dict[tuple[int, int], Counted] = {}
        """The same by API and version, if the peer has spoken several."""
        self.stopwatch: Stopwatch | None = None
        """Set while requests of an event are timed."""

    def begin(self, wall_ms: int, started: int, waiting: int) -> None:
        """Time the event that begins now, unless one of the connection is being timed."""
        if self.stopwatch is None:
            self.times.due_ms = wall_ms + SAMPLE_MS
            self.stopwatch = Stopwatch(self.times, started, waiting)

    def end(self, started: int, waiting: int) -> None:
        """An event is over; call it while there is a stopwatch."""
        if self.stopwatch is not None and self.stopwatch.end(started, waiting):
            self.stopwatch = None

    def note(self, key: int, version: int, size: int) -> None:
        """Count a request that was not recognised; the API is UNSPOKEN if it is refused as such."""
        counted = self._decoded.get(key)
        if counted is None or counted.version != version:
            counted = self._spoken.setdefault((key, version), Counted(version))
            self._decoded[key] = counted
        counted.count += 1
        counted.byte_count += size

    def time(self, connection: "Connection", key: int, *, waits: bool) -> None:
        """Note a request of the event that is timed; `waits`: its answer may come later."""
        if self.stopwatch is not None:
            name = name_of(key, is_replica=connection.is_replica)
            self.stopwatch.note(name, connection.started, waits=waits)

    def counts(self, connection: "Connection") -> Iterator[tuple[tuple[str, int], int, int]]:
        """Name and version, requests and their bytes; bytes under way count for Produce."""
        repeated = connection.started
        repeated_bytes = self.received - FRAME_LENGTH_BYTES * repeated
        for (key, _), counted in self._spoken.items():
            name = name_of(key, is_replica=connection.is_replica)
            yield (name, counted.version), counted.count, counted.byte_count
            repeated -= counted.count
            repeated_bytes -= counted.byte_count
        produced = self._decoded.get(ApiKey.PRODUCE)
        if produced is not None and repeated:
            yield (PRODUCE, produced.version), repeated, max(0, repeated_bytes)

    def close(self, connection: "Connection") -> None:
        """Hand the counts of a connection that is gone to those of the broker."""
        for kind, count, byte_count in self.counts(connection):
            counted = self.times.gone.setdefault(kind, Counted(kind[1]))
            counted.count += count
            counted.byte_count += byte_count


def name_of(key: int, *, is_replica: bool = False) -> str:
    """Name a request as Kafka's metrics do: fetches of followers and consumers are two."""
    if key == ApiKey.FETCH:
        return "FetchFollower" if is_replica else "FetchConsumer"
    return _name_of(key)


@cache
def _name_of(key: int) -> str:
    return "Unspoken" if key == UNSPOKEN else REQUESTS[key].__name__.removesuffix("Request")


PRODUCE: Final = _name_of(ApiKey.PRODUCE)


def _codes(message: Any) -> Iterator[int]:
    own, arrays = _places(message.__class__)
    for name in own:
        yield getattr(message, name)
    for name in arrays:
        for item in getattr(message, name) or ():
            yield from _codes(item)


@cache
def _places(cls: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The fields of a message that hold error codes, and those whose items may."""
    own: list[str] = []
    arrays: list[str] = []
    for field in shape_of(cls).fields:
        items = field.element.items
        if field.name in _CODES:
            own.append(field.name)
        elif items is not None and items.struct is not None and any(_places(items.struct)):
            arrays.append(field.name)
    return tuple(own), tuple(arrays)
