"""Checks a history: every acknowledged record is read, once and in order, by every reader.

The checks are those of jepsen.tests.kafka that mean something without transactions, each in time
linear in the history (but for one sort). Offsets of a partition have no holes here, so a reader
that assigned itself must be given every one of them.

    lost-write            acknowledged, at an offset below the end, and nobody ever read it there
    unseen                acknowledged, and the final reads end before it
    duplicate             one value at two offsets
    inconsistent-offset   one offset with two values, in reads or acknowledgements
    aborted-read          a value was read whose sender was told that it failed (G1a)
    phantom-read          a value was read that nobody sent
    vanished-read         somebody read it, the final reads do not have it
    nonmonotonic-send     a later send of one writer got a lower offset
    realtime-order        a send that began after another's acknowledgement got a lower offset
    nonmonotonic-poll     a reader was given an offset again, or an older one
    poll-skip             a reader was not given an offset that exists
    lost-position         a reader was told that the log does not hold its position
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from .history import History, Outcome, Reading, Send

ANOMALIES = (
    "lost-write",
    "unseen",
    "duplicate",
    "inconsistent-offset",
    "aborted-read",
    "phantom-read",
    "vanished-read",
    "nonmonotonic-send",
    "realtime-order",
    "nonmonotonic-poll",
    "poll-skip",
    "lost-position",
)
LOSSES = ("lost-write", "unseen")
EXAMPLES = 5

Place = tuple[int, int]
"""Partition and offset."""


@dataclass
class Findings:
    """The errors found in a history: their number, and some examples, by kind."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(ANOMALIES, 0))
    examples: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, anomaly: str, example: str) -> None:
        """Note one."""
        self.counts[anomaly] += 1
        if len(self.examples[anomaly]) < EXAMPLES:
            self.examples[anomaly].append(example)

    @property
    def lost(self) -> int:
        """Acknowledged records that cannot be read."""
        return sum(self.counts[anomaly] for anomaly in LOSSES)

    @property
    def duplicated(self) -> int:
        """Records that are in the log twice."""
        return self.counts["duplicate"]

    @property
    def others(self) -> int:
        """All other anomalies together."""
        return sum(self.counts.values()) - self.lost - self.duplicated

    def __bool__(self) -> bool:
        return any(self.counts.values())

    def __str__(self) -> str:
        found = {anomaly: count for anomaly, count in self.counts.items() if count}
        lines = [f"{a}: {n}, such as {'; '.join(self.examples[a])}" for a, n in found.items()]
        return "\n".join(lines) or "nothing"


def check(history: History) -> Findings:
    """Look for every anomaly."""
    findings = Findings()
    final = {
        (reading.partition, offset): value
        for reading in history.final
        for offset, value in reading.records
    }
    seen = _check_values(history, final, findings)
    _check_acknowledged(history, seen, final, findings)
    for partition, sends in _by_partition(history).items():
        _check_send_order(partition, sends, findings)
        _check_real_time(partition, sends, findings)
    for reading in (*history.readings, *history.final):
        _check_poll_order(reading, seen, findings)
    for why in history.lost_positions:
        findings.add("lost-position", why)
    return findings


def _by_partition(history: History) -> dict[int, list[Send]]:
    found: defaultdict[int, list[Send]] = defaultdict(list)
    for send in history.sends:
        found[send.partition].append(send)
    return found


def _reads(history: History) -> Iterator[tuple[Place, int, str]]:
    for reading in (*history.final, *history.readings):
        for offset, value in reading.records:
            yield (reading.partition, offset), value, reading.reader


def _check_values(
    history: History, final: dict[Place, int], findings: Findings
) -> dict[Place, int]:
    """Check that every offset has one value and every value one offset; return the values read."""
    sent = {send.value: send for send in history.sends}
    seen: dict[Place, int] = {}
    place_of: dict[int, Place] = {}
    again: dict[tuple[int, Place], None] = {}
    for place, value, reader in _reads(history):
        known = seen.setdefault(place, value)
        if known != value:
            findings.add("inconsistent-offset", f"{place} is {known}, {reader} read {value}")
            continue
        if place_of.setdefault(value, place) != place:
            if (value, place) not in again:
                again[value, place] = None
                findings.add("duplicate", f"{value} at {place_of[value]} and {place}")
            continue
        if place not in final:
            findings.add("vanished-read", f"{reader} read {value} at {place}")
            final[place] = value  # once is enough
        send = sent.get(value)
        if send is None or send.partition != place[0]:
            findings.add("phantom-read", f"{reader} read {value} at {place}")
        elif send.outcome is Outcome.FAILED:
            findings.add("aborted-read", f"{reader} read {value} at {place}")
    return seen


def _check_acknowledged(
    history: History, seen: dict[Place, int], final: dict[Place, int], findings: Findings
) -> None:
    """Check that every acknowledged send was read at its acknowledged offset."""
    ends: defaultdict[int, int] = defaultdict(int)
    for partition, offset in seen:
        ends[partition] = max(ends[partition], offset + 1)
    promised: dict[Place, int] = {}
    for send in history.acknowledged():
        place = (send.partition, send.offset)
        what = f"{send.writer}'s {send.value} at {place}"
        if place in promised:
            findings.add("inconsistent-offset", f"{what}, where {promised[place]} was promised")
        promised[place] = send.value
        found = seen.get(place)
        if found is None:
            is_inside = send.offset < ends[send.partition]
            findings.add("lost-write" if is_inside else "unseen", what)
        elif found != send.value:
            findings.add("lost-write", f"{what}: {found} is there")


def _check_send_order(partition: int, sends: list[Send], findings: Findings) -> None:
    """Check that acknowledged offsets of a writer grow in the order of its sends."""
    newest: dict[str, Send] = {}
    for send in sends:
        if send.outcome is not Outcome.OK:
            continue
        before = newest.get(send.writer)
        if before is not None and before.offset >= send.offset:
            example = f"{send.writer}: {before.value} at {before.offset}, then {send.value} at "
            findings.add("nonmonotonic-send", f"{example}{send.offset} of {partition}")
        newest[send.writer] = send


def _check_real_time(partition: int, sends: list[Send], findings: Findings) -> None:
    """Check that a send that began after another's acknowledgement has a higher offset."""
    done = [send for send in sends if send.outcome is Outcome.OK]
    events = [(send.ended_ns, 1, n) for n, send in enumerate(done)]
    events += [(send.began_ns, 0, n) for n, send in enumerate(done)]
    highest = -1
    above = [-1] * len(done)
    for _, is_end, n in sorted(events):
        if is_end:
            highest = max(highest, done[n].offset)
        else:
            above[n] = highest
    for n, send in enumerate(done):
        if send.offset <= above[n]:
            example = f"{send.writer}'s {send.value} at {send.offset} of {partition} began when "
            findings.add("realtime-order", f"{example}{above[n]} was acknowledged")


def _check_poll_order(reading: Reading, seen: dict[Place, int], findings: Findings) -> None:
    """Check that a reader gets every offset from its start on, each once."""
    due = reading.start
    for offset, _ in reading.records:
        who = f"{reading.reader} was given {offset} of {reading.partition}, {due} was due"
        if offset < due:
            findings.add("nonmonotonic-poll", who)
            continue
        skipped = next((at for at in range(due, offset) if (reading.partition, at) in seen), None)
        if skipped is not None:
            findings.add("poll-skip", who)
        due = offset + 1
