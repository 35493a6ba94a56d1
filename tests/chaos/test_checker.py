"""The test of the judge: every anomaly is planted once and found, and a clean history is clean."""

from collections.abc import Callable

import pytest

from .checker import ANOMALIES, check
from .history import History, Outcome, Reading, Send, take_in

COUNT = 10


def clean(count: int = COUNT) -> History:
    """Two partitions, a writer for each, a reader of both; everything went well."""
    history = History()
    for partition in (0, 1):
        pairs = []
        for n in range(count):
            value = partition * 1_000_000 + n
            sent = Send(f"w{partition}", partition, value, n * 10, n * 10 + 5, Outcome.OK, n)
            history.sends.append(sent)
            pairs.append((n, value))
        history.readings.append(Reading("tail", partition, 3, pairs[3:]))
        history.final.append(Reading("final", partition, 0, list(pairs)))
    return history


def forget(history: History, partition: int, offset: int) -> None:
    """Nobody is given what is at an offset."""
    for reading in (*history.readings, *history.final):
        if reading.partition == partition:
            reading.records = [pair for pair in reading.records if pair[0] != offset]


def lose_a_write(history: History) -> None:
    forget(history, 0, 5)


def overwrite_a_write(history: History) -> None:
    history.sends.append(Send("w9", 0, 999, 0))
    for reading in (*history.readings, *history.final):
        reading.records = [
            (offset, 999) if (reading.partition, offset) == (0, 5) else (offset, value)
            for offset, value in reading.records
        ]


def lose_the_last_write(history: History) -> None:
    forget(history, 1, COUNT - 1)


def write_twice(history: History) -> None:
    history.final[0].records.append((COUNT, 4))


def give_two_values_for_one_offset(history: History) -> None:
    history.sends.append(Send("w9", 0, 999, 0))
    history.readings[0].records[2] = (5, 999)


def promise_one_offset_twice(history: History) -> None:
    history.sends.append(Send("w9", 0, 999, 0, 200, Outcome.OK, 5))


def read_what_failed(history: History) -> None:
    history.sends.append(Send("w9", 0, 999, 0, 1, Outcome.FAILED))
    history.final[0].records.append((COUNT, 999))


def read_what_nobody_sent(history: History) -> None:
    history.final[0].records.append((COUNT, 31337))


def read_what_is_gone_later(history: History) -> None:
    history.sends.append(Send("w9", 0, 999, 0))
    history.readings[0].records.append((COUNT, 999))


def answer_sends_out_of_order(history: History) -> None:
    for send in history.sends[:2]:
        send.began_ns, send.ended_ns = 0, 100
    history.sends[0].offset, history.sends[1].offset = 1, 0
    history.final[0].records[:2] = [(0, 1), (1, 0)]


def put_a_later_send_before(history: History) -> None:
    """Two writers: nobody's own order is broken."""
    history.sends[0].offset, history.sends[1].offset = 1, 0
    history.sends[1].writer = "w9"
    history.final[0].records[:2] = [(0, 1), (1, 0)]
    history.sends[1].began_ns = history.sends[0].ended_ns + 1


def give_an_offset_again(history: History) -> None:
    history.readings[1].records.insert(3, history.readings[1].records[2])


def skip_an_offset(history: History) -> None:
    del history.readings[1].records[2]


def lose_a_position(history: History) -> None:
    take_in(history, "tail", ["e 12 0 OFFSET_OUT_OF_RANGE\n"])


PLANTED: list[tuple[Callable[[History], None], str]] = [
    (lose_a_write, "lost-write"),
    (overwrite_a_write, "lost-write"),
    (lose_the_last_write, "unseen"),
    (write_twice, "duplicate"),
    (give_two_values_for_one_offset, "inconsistent-offset"),
    (promise_one_offset_twice, "inconsistent-offset"),
    (read_what_failed, "aborted-read"),
    (read_what_nobody_sent, "phantom-read"),
    (read_what_is_gone_later, "vanished-read"),
    (answer_sends_out_of_order, "nonmonotonic-send"),
    (put_a_later_send_before, "realtime-order"),
    (give_an_offset_again, "nonmonotonic-poll"),
    (skip_an_offset, "poll-skip"),
    (lose_a_position, "lost-position"),
]


def test_a_clean_history_is_clean() -> None:
    findings = check(clean())
    assert str(findings) == "nothing"
    assert not findings


@pytest.mark.parametrize(
    ("plant", "anomaly"), PLANTED, ids=lambda part: getattr(part, "__name__", part)
)
def test_a_planted_anomaly_is_found(plant: Callable[[History], None], anomaly: str) -> None:
    history = clean()
    plant(history)
    findings = check(history)
    assert findings.counts[anomaly] > 0, f"found only: {findings}"
    assert anomaly in str(findings)


def test_every_anomaly_is_planted() -> None:
    assert {anomaly for _, anomaly in PLANTED} == set(ANOMALIES)


def test_unknown_sends_may_be_read_or_not() -> None:
    history = clean()
    history.sends += [Send("w9", 0, 998, 0), Send("w9", 0, 999, 0)]
    history.final[0].records.append((COUNT, 999))
    assert not check(history)


def test_losses_duplicates_and_others_are_told_apart() -> None:
    history = clean()
    lose_the_last_write(history)
    write_twice(history)
    findings = check(history)
    assert (findings.lost, findings.duplicated) == (1, 1)
    assert findings.others == sum(findings.counts.values()) - 2


def test_lines_become_a_history() -> None:
    history = History()
    lines = ["i 10 0 1 2\n", "i 11 1 3\n", "a 15 0 1 7\n", "f 16 0 2 TOO_LARGE\n", "u 17 1 3 X\n"]
    take_in(history, "w", [*lines, "a 18 0 "])
    take_in(history, "t", ["s 0 7\n", "r 20 0 7:1 8:5\n", "s 0 0\n", "r 21 0 0:9\n"])
    ends = [(send.value, send.outcome, send.offset, send.ended_ns) for send in history.sends]
    assert ends == [
        (1, Outcome.OK, 7, 15),
        (2, Outcome.FAILED, -1, 16),
        (3, Outcome.UNKNOWN, -1, 17),
    ]
    readings = [(r.reader, r.start, r.records) for r in history.readings]
    assert readings == [("t", 7, [(7, 1), (8, 5)]), ("t", 0, [(0, 9)])]
