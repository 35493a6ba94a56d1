"""The lines that client processes write about requests and answers, and the history made of them.

Jepsen's shape for Kafka: every value is a unique integer, an operation is a send or a poll, and a
send ends ok, failed, or unknown. A line is written before its send is, so a client that is killed
leaves no value that nobody knows of. Times are CLOCK_MONOTONIC, one clock for all processes here.

    i TIME PARTITION VALUE ...          sends begin
    a TIME PARTITION VALUE OFFSET       acknowledged
    f TIME PARTITION VALUE WHY          failed: it must never be read
    u TIME PARTITION VALUE WHY          unknown
    s PARTITION OFFSET                  a reader starts here
    r TIME PARTITION OFFSET:VALUE ...   one poll's records of one partition, in order
    e TIME PARTITION WHY                a reader was told that its position is gone
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path


class Outcome(Enum):
    """What the sender knows of a send."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Send:
    """One value that was sent to one partition."""

    writer: str
    partition: int
    value: int
    began_ns: int
    ended_ns: int = -1
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1


@dataclass(slots=True)
class Reading:
    """The records that a reader got from a partition since it last chose a position."""

    reader: str
    partition: int
    start: int
    records: list[tuple[int, int]] = field(default_factory=list)
    """(offset, value), in the order they came."""


@dataclass(slots=True)
class History:
    """The sends and reads of all clients of a run."""

    sends: list[Send] = field(default_factory=list)
    """Per writer in the order in which it sent."""
    readings: list[Reading] = field(default_factory=list)
    final: list[Reading] = field(default_factory=list)
    """One reading of each partition from its beginning, after everything was healed and settled."""
    lost_positions: list[str] = field(default_factory=list)

    def acknowledged(self) -> Iterator[Send]:
        """Give the sends that were acknowledged."""
        return (send for send in self.sends if send.outcome is Outcome.OK)


OUTCOMES = {"a": Outcome.OK, "f": Outcome.FAILED, "u": Outcome.UNKNOWN}


def read(directory: Path) -> History:
    """Read the files of all clients of a run; a file's name is the client's."""
    history = History()
    for path in sorted(directory.glob("*.history")):
        with path.open() as lines:
            take_in(history, path.stem, lines)
    return history


def take_in(history: History, client: str, lines: Iterable[str]) -> None:
    """Add one client's lines. A last line without its end was cut off by a kill: it is ignored."""
    pending: dict[int, Send] = {}
    readings: dict[int, Reading] = {}
    for line in lines:
        if not line.endswith("\n"):
            break
        kind, *words = line.split()
        if kind == "i":
            for word in words[2:]:
                send = Send(client, int(words[1]), int(word), int(words[0]))
                history.sends.append(send)
                pending[send.value] = send
        elif kind in OUTCOMES:
            send = pending[int(words[2])]
            send.ended_ns, send.outcome = int(words[0]), OUTCOMES[kind]
            if kind == "a":
                send.offset = int(words[3])
        elif kind == "s":
            reading = Reading(client, int(words[0]), int(words[1]))
            readings[reading.partition] = reading
            history.readings.append(reading)
        elif kind == "r":
            pairs = (word.partition(":") for word in words[2:])
            readings[int(words[1])].records.extend(
                (int(offset), int(value)) for offset, _, value in pairs
            )
        elif kind == "e":
            history.lost_positions.append(f"{client}: {' '.join(words[1:])}")
        else:
            raise ValueError(f"{client}: {line!r}")
