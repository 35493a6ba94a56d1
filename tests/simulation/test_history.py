"""The checker finds each kind of contradiction, and nothing in a clean history."""

import copy

import pytest

from .history import History, Sent, check

T0 = ("t", 0)


def clean() -> History:
    sent = [Sent("p", T0, number, acknowledged_at=number) for number in range(5)]
    sent.append(Sent("p", T0, 5))
    final = {T0: [(each.number, each.value) for each in sent]}
    polled = {"c": [(T0, offset, value) for offset, value in final[T0][2:5]]}
    return History(sent, polled, final)


def test_a_clean_history_has_no_findings() -> None:
    assert check(clean()) == []
    assert clean().acknowledged_count == 5


def test_an_unacknowledged_record_may_be_missing() -> None:
    history = clean()
    history.final[T0].pop()
    assert check(history) == []


def lose(history: History) -> None:
    history.final[T0][3:] = []


def move(history: History) -> None:
    history.final[T0][3], history.final[T0][4] = (3, b"p:t:0:4"), (4, b"p:t:0:3")


def double(history: History) -> None:
    history.final[T0].append((6, b"p:t:0:5"))


def invent(history: History) -> None:
    history.final[T0].append((6, b"q:t:0:0"))


def skip(history: History) -> None:
    del history.polled["c"][1]


def vanish(history: History) -> None:
    history.sent[4].acknowledged_at = None
    history.final[T0][4:] = []


def leave_a_gap(history: History) -> None:
    history.final[T0][5] = (6, history.final[T0][5][1])


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (lose, "lost"),
        (move, "reordered"),
        (double, "duplicate"),
        (invent, "invented"),
        (skip, "came where"),
        (vanish, "inconsistent"),
        (leave_a_gap, "gap"),
    ],
)
def test_each_kind_of_damage_is_found(damage: object, finding: str) -> None:
    history = copy.deepcopy(clean())
    assert callable(damage)
    damage(history)
    assert any(finding in each for each in check(history))


def test_what_promises_nothing_may_vanish_repeat_and_come_late() -> None:
    history = clean()
    for sent in history.sent:
        sent.may_vanish = sent.may_repeat = True
    values = [each.value for each in history.sent]
    history.final[T0] = list(enumerate([values[0], values[2], values[1], values[2]]))
    history.polled.clear()
    assert check(history) == []


def test_after_an_unclean_election_only_inventions_count() -> None:
    history = clean()
    history.lossy[T0] = None
    lose(history)
    assert check(history) == []
    history.final[T0].append((3, b"q:t:0:0"))
    assert [each.split(":")[0] for each in check(history)] == ["invented"]


def delete_below(history: History, offset: int) -> None:
    history.gone_below[T0] = offset
    history.final[T0] = [each for each in history.final[T0] if each[0] >= offset]


def test_what_was_deleted_need_not_be_there() -> None:
    history = clean()
    delete_below(history, 3)
    history.polled["c"] = [(T0, 0, b"p:t:0:0"), (T0, 3, b"p:t:0:3")]
    assert check(history) == []


def test_what_was_not_deleted_must_be_there() -> None:
    history = clean()
    delete_below(history, 3)
    del history.final[T0][0]
    assert any(each.startswith("lost: p:t:0:3") for each in check(history))
    history.polled["c"] = [(T0, 0, b"p:t:0:0"), (T0, 4, b"p:t:0:4")]
    assert "c: at t-0 offset 4 came where 1 was due" in check(history)
