from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.types import OffsetAndEpoch
from minikafka.storage.leader_epochs import LeaderEpochs

ENTRIES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 200)), max_size=12)


def test_it_remembers_where_epochs_begin() -> None:
    epochs = LeaderEpochs()
    assert (epochs.latest_epoch, epochs.latest_start) == (-1, -1)
    assert epochs.assign(1, 0)
    assert epochs.assign(4, 10)
    assert not epochs.assign(4, 12)
    assert not epochs.assign(-1, 12)
    assert list(epochs) == [(1, 0), (4, 10)]
    assert (epochs.latest_epoch, epochs.latest_start) == (4, 10)
    assert [epochs.epoch_for(offset) for offset in (-1, 0, 9, 10, 99)] == [-1, 1, 1, 4, 4]


def test_an_assignment_removes_what_contradicts_it() -> None:
    epochs = LeaderEpochs([(1, 0), (2, 10), (3, 20)])
    epochs.assign(4, 15)
    assert list(epochs) == [(1, 0), (2, 10), (4, 15)]
    epochs.assign(2, 12)
    assert list(epochs) == [(1, 0), (2, 12)]
    epochs.assign(2, 5)
    assert list(epochs) == [(1, 0), (2, 5)]


def test_where_an_epoch_ended() -> None:
    epochs = LeaderEpochs([(2, 5), (4, 10), (7, 20)])
    answers = {
        7: OffsetAndEpoch(33, 7),
        8: None,
        -1: None,
        1: OffsetAndEpoch(5, 1),  # before all that is known
        2: OffsetAndEpoch(10, 2),
        3: OffsetAndEpoch(10, 2),
        5: OffsetAndEpoch(20, 4),
    }
    assert {q: epochs.end_offset_for(q, 33) for q in answers} == answers
    assert LeaderEpochs().end_offset_for(0, 33) is None


def test_truncation() -> None:
    epochs = LeaderEpochs([(2, 5), (4, 10), (7, 20)])
    assert not epochs.truncate_from_end(21)
    assert epochs.truncate_from_end(20)
    assert list(epochs) == [(2, 5), (4, 10)]
    assert not epochs.truncate_from_start(5)
    assert epochs.truncate_from_start(7)
    assert list(epochs) == [(2, 7), (4, 10)]
    assert epochs.truncate_from_start(15)
    assert list(epochs) == [(4, 15)]
    assert epochs.clear()
    assert not epochs.clear()


def test_its_file_is_kafkas() -> None:
    assert LeaderEpochs([(0, 0), (3, 17)]).encode() == b"0\n2\n0 0\n3 17\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"0\n2\n0 0\n",
        b"0\n2\n0 0\n3 17",
        b"1\n1\n0 0\n",
        b"0\n1\n0 x\n",
        b"0\n2\n3 0\n2 9\n",
        b"0\n1\n\xff\n",
        bytes(20),
    ],
)
def test_a_damaged_file_is_none(data: bytes) -> None:
    assert LeaderEpochs.decode(data) is None


@given(ENTRIES)
def test_both_columns_grow_whatever_is_assigned(entries: list[tuple[int, int]]) -> None:
    epochs = LeaderEpochs()
    for epoch, start in entries:
        epochs.assign(epoch, start)
        held = list(epochs)
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(held))
        assert held[-1][0] == epoch
        assert held[-1][1] <= start
    decoded = LeaderEpochs.decode(epochs.encode())
    assert decoded is not None
    assert list(decoded) == list(epochs)
