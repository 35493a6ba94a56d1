"""Snapshots of a schedule: a fold that goes on from one is the fold of the whole log (F6)."""

from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.forward.due_index import RUN_ENTRIES, DueIndex, Entry
from minikafka.broker.forward.folding import SourceState
from minikafka.broker.forward.snapshot import OtherSnapshot, Restoring, frames_of
from minikafka.broker.forward.steps import End, Kind, Plan, Step, encode
from minikafka.protocol.delays import DELAY_MS, DelayRule
from minikafka.protocol.records.batch_header import BatchHeader
from minikafka.protocol.records.records import (
    BatchBuilder,
    EndTransactionMarker,
    build_end_transaction_batch,
    records,
)
from minikafka.protocol.types import TopicIdPartition
from minikafka.storage.offset_set import BLOCK

RULE = DelayRule("header", 0, 1_000_000, replaces=True)
TARGET = TopicIdPartition(b"t" * 16, 1)

produced = st.tuples(
    st.just("produced"),
    st.lists(st.tuples(st.sampled_from([b"a", b"b", None]), st.integers(0, 50)), min_size=1),
    st.sampled_from((-1, -1, 8, 9)),
)
ended = st.tuples(st.just("ended"), st.sampled_from((8, 9)), st.booleans())
stepped = st.tuples(st.just("stepped"), st.integers(0, 20), st.sampled_from("pedcm"))
LOG = st.lists(st.one_of(produced, ended, stepped), max_size=25)


class Folding:
    """A fold, and the index that goes with it."""

    def __init__(self, state: SourceState, index: DueIndex) -> None:
        self.state, self.index = state, index

    def fold(self, batch: bytearray) -> None:
        batch[:8] = self.state.folded.to_bytes(8, "big")
        found = records(batch)
        folded = self.state.fold(BatchHeader(batch), found, RULE, lambda at, error: None)
        self.index.add(folded.entries)

    def facts(self) -> object:
        """Everything that decides what is forwarded from now on."""
        state, index = self.state, self.index
        waiting = [each for each in index.behind(Entry(-1, -1)) if not state.is_over(each)]
        return (
            (state.folded, state.epoch, state.low, state.settled.lowest),
            [offset for offset in range(state.folded) if offset in state.settled],
            (state.plans, state.moved, [*state.cancelled]),
            (state.undecided, state.undecided_keyed, state.newest, state.prune_at),
            waiting,
        )


def batch_of(said: tuple[Any, ...], offset: int) -> bytearray:
    if said[0] == "produced":
        builder = BatchBuilder(is_transactional=said[2] >= 0)
        for key, ms in said[1]:
            builder.append(100, key, None if ms == 7 else b"v", [(DELAY_MS, b"%d" % ms)])
        return builder.build(producer_id=said[2], leader_epoch=3)
    if said[0] == "ended":
        return build_end_transaction_batch(EndTransactionMarker(said[2], 0), said[1], 0, 0)
    at, what = min(said[1], max(offset - 1, 0)), said[2]
    plan = Plan(at, TARGET, 7, at, Kind.DUE, 0, 5, (at,))
    steps = {
        "p": Step((plan,)),
        "e": Step(ends=(End(at, 1),)),
        "d": Step(dropped=(at,)),
        "c": Step(cancelled=(at,)),
        "m": Step(moved=(Entry(5, at),)),
    }
    return encode(steps[what], 5)


def restored(one: Folding, taken: list[Entry]) -> Folding:
    restoring = Restoring(RULE)
    for frame in frames_of(one.state, [one.index], taken, RULE):
        restoring.add(frame)
    assert restoring.is_whole
    return Folding(restoring.state, restoring.index)


@given(LOG, st.integers(0, 25), st.integers(0, 3))
def test_r_31_a_snapshot_and_what_follows_is_the_fold_of_all(
    log: list[tuple[Any, ...]], cut: int, count: int
) -> None:
    whole, part = (Folding(SourceState(), DueIndex()) for _ in range(2))
    for at, said in enumerate(log):
        if at == cut:
            taken = part.index.take(1 << 60, count)
            part = restored(part, taken)
        for each in (whole, part):
            each.fold(batch_of(said, each.state.folded))
    assert part.facts() == whole.facts()


def test_r_31_many_that_wait_are_restored() -> None:
    one = Folding(SourceState(), DueIndex())
    one.index.add(Entry(each * 7919 % 100_003, each) for each in range(3 * RUN_ENTRIES + 5))
    one.state.skip_to(3)
    one.state.settled.add_all(range(5, 3 * BLOCK, 2))
    taken = one.index.take(50, 20)
    again = restored(one, taken)
    assert len(again.index) == len(one.index) + len(taken)
    assert again.index.take(50, 20) == taken
    assert again.index.take(1 << 60, 1 << 20) == one.index.take(1 << 60, 1 << 20)
    assert (
        again.state.settled.part(0, 4 * BLOCK).count(0, 4 * BLOCK) == 3 + (3 * BLOCK - 5) // 2 + 1
    )


def test_a_snapshot_of_other_settings_is_not_used() -> None:
    frames = [*frames_of(SourceState(), [DueIndex()], [], RULE)]
    for other in (RULE._replace(by="fixed"), RULE._replace(replaces=False)):
        with pytest.raises(OtherSnapshot, match="other settings"):
            Restoring(other).add(frames[0])
    longer = Restoring(RULE._replace(max_ms=5))
    longer.add(frames[0])
    assert longer.is_whole


@given(
    st.lists(
        st.sampled_from(
            ["settled", "waiting", "plans", "moved", "cancelled", "open", "open keyed", "newest"]
        )
        | st.integers()
        | st.binary(max_size=9)
        | st.lists(st.integers(), max_size=4),
        max_size=8,
    )
)
def test_no_frame_does_harm(fields: list[Any]) -> None:
    restoring = Restoring(RULE)
    for frame in frames_of(SourceState(), [DueIndex()], [], RULE):
        restoring.add(frame)
    try:
        packed = msgpack.packb(fields)
    except OverflowError:
        return
    try:
        restoring.add(packed)
    except OtherSnapshot:
        return
    assert fields
