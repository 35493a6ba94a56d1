"""The pure machines of the Forwarder: steps, offsets, the index, the fold, queues and plans."""

import dataclasses
import tracemalloc
from collections.abc import Sequence

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.forward.drafting import Outlook, draft, replace_in
from minikafka.broker.forward.due_index import (
    MOST_FORGOTTEN,
    RUN_ENTRIES,
    SMALL_RUN,
    SMALL_RUNS,
    DueIndex,
    Entry,
)
from minikafka.broker.forward.emitting import build, partition_of
from minikafka.broker.forward.folding import Folded, SourceState
from minikafka.broker.forward.lead import (
    Lead,
    NeedsId,
    Wanted,
    grouped,
    replace,
    without_deleted,
)
from minikafka.broker.forward.refiring import MOST_REQUESTS, Found, Refire, Refired, Refires
from minikafka.broker.forward.steps import GONE, REPLACED, End, Kind, Plan, Step, decode, encode
from minikafka.broker.forward.targets import (
    LONGEST_REST_MS,
    Ended,
    GaveUp,
    Phase,
    TargetQueue,
    Targets,
)
from minikafka.protocol.control.image import Topic
from minikafka.protocol.delays import DELAY_MS, DELIVER_AT, DUE, HOPS, HOPS_MAX, SOURCE, DelayRule
from minikafka.protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from minikafka.protocol.messages.forward_records import FENCED, OFFSET_FORGOTTEN
from minikafka.protocol.records.batch_header import BatchHeader, TimestampType
from minikafka.protocol.records.records import (
    BatchBuilder,
    EndTransactionMarker,
    Record,
    build_end_transaction_batch,
    records,
)
from minikafka.protocol.types import TopicIdPartition, TopicPartition
from minikafka.runtime.config import from_mapping
from minikafka.storage.delay_config import DelayConfig
from minikafka.storage.offset_set import BLOCK, OffsetSet
from minikafka.storage.producer_state import FORWARD_EPOCH
from minikafka.storage.topic_config import TopicConfig

T0 = TopicIdPartition(b"t" * 16, 0)
T1 = TopicIdPartition(b"t" * 16, 1)
RULE = DelayRule("header", 0, 1_000_000)
S = TopicPartition("later", 3)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)


def _packed(value: object) -> bytes:
    return bytes(msgpack.packb(value))


offsets = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=20).map(tuple)
plans = st.builds(
    Plan,
    st.integers(0, 1 << 60),
    st.builds(TopicIdPartition, st.binary(min_size=16, max_size=16), st.integers(0, 1 << 20)),
    st.integers(0, 1 << 60),
    st.integers(0, 1 << 30),
    st.sampled_from(Kind),
    st.sampled_from((0, 10, 87)),
    st.integers(0, 1 << 44),
    offsets,
)
moved = st.lists(st.builds(Entry, st.integers(0, 1 << 44), st.integers(0, 1 << 60))).map(tuple)
ends = st.builds(End, st.integers(0, 1 << 60), st.integers(-3, 1 << 60))


def plan(plan_id: int, *of: int, target: TopicIdPartition = T0, **other: int) -> Plan:
    kind = Kind(other.get("kind", 0))
    return Plan(plan_id, target, other.get("id", 7), other.get("at", 0), kind, 0, 5, of or (1,))


# Steps.


@given(
    st.builds(Step, st.lists(plans).map(tuple), st.lists(ends).map(tuple), offsets, offsets, moved)
)
def test_a_step_is_read_as_it_was_written(step: Step) -> None:
    batch = encode(step, 5)
    header = BatchHeader(batch)
    (record,) = records(batch, check_crc=True)
    assert (header.is_control, header.producer_id, record.timestamp) == (True, -1, 5)
    assert decode(record.key, record.value) == step


@given(st.binary(max_size=60) | st.recursive(int64 | st.binary(), st.lists).map(_packed))
def test_no_bytes_of_a_step_do_harm(value: bytes) -> None:
    key = b"\x00\x00\x75\x31"
    try:
        found = decode(key, value)
    except RemoteProtocolError:
        return
    assert isinstance(found, Step)


def test_other_control_records_are_no_steps() -> None:
    assert decode(None, b"") is None
    assert decode(b"\x00\x00\x00\x01", b"") is None
    assert decode(b"\x00\x00\x75\x32", b"") is None


# Offsets and the index.


places = st.integers(0, 3 * BLOCK) | st.integers(0, 40) | st.integers(BLOCK - 20, BLOCK + 20)


@given(
    st.lists(
        st.tuples(st.just("add"), places, places)
        | st.tuples(st.just("range"), places, st.integers(0, 90) | st.just(BLOCK + 5))
        | st.tuples(st.just("rise"), places, places)
        | st.tuples(st.just("copy"), places, places)
    ),
    st.integers(0, 20),
)
def test_a_set_of_offsets_is_a_set(done: list[tuple[str, int, int]], start: int) -> None:
    end = 5 * BLOCK
    model = dict.fromkeys(range(start))
    found = OffsetSet(start)
    for what, at, more in done:
        if what == "add":
            found.add(at)
            model[at] = None
        elif what == "range":
            found.add_range(at, at + more)
            model.update(dict.fromkeys(range(at, at + more)))
        elif what == "rise":
            found.rise_to(at)
            model.update(dict.fromkeys(range(at)))
        else:
            other = OffsetSet(found.lowest)
            for block in found.blocks():
                other.put_block(*block)
            found = other
        lowest = next(each for each in range(start, end) if each not in model)
        assert (found.lowest, found.missing(end)) == (lowest, end - len(model))
    some = [*range(60), *range(BLOCK - 30, BLOCK + 30), *(each[1] for each in done)]
    assert [each in found for each in some] == [each in model for each in some]
    assert found.count(30, BLOCK + 9) == sum(30 <= each < BLOCK + 9 for each in model)


def test_full_blocks_share_their_bits() -> None:
    found = OffsetSet()
    found.add_range(1, 3 * BLOCK)
    found.add_all(range(3 * BLOCK, 4 * BLOCK))
    assert len({id(bits) for bits in found._blocks.values()}) == 2
    assert [len(bits) for _, bits in found.blocks()] == [BLOCK // 8, 0, 0, 0]


def test_a_full_block_costs_nothing() -> None:
    found = OffsetSet()
    found.add_all(reversed(range(3 * BLOCK)))
    assert (found.lowest, found._blocks) == (3 * BLOCK, {})
    found.rise_to(10 * BLOCK)
    assert found.lowest == 10 * BLOCK


entries = st.lists(st.builds(Entry, st.integers(0, 50), st.integers(0, 1_000)), unique=True)


@given(st.lists(st.tuples(entries, st.integers(0, 60), st.integers(1, 5))))
def test_the_index_gives_entries_in_the_order_of_times(
    rounds: list[tuple[list[Entry], int, int]],
) -> None:
    index, model = DueIndex(), list[Entry]()
    for added, up_to, most in rounds:
        index.add(added)
        model = sorted([*model, *added])
        due = [each for each in model if each.due_ms <= up_to][:most]
        assert index.take(up_to, most) == due
        model = model[len(due) :]
        assert len(index) == len(model)
        assert index.next_due_ms == (model[0].due_ms if model else None)


def test_the_index_gives_runs_and_new_entries_together() -> None:
    index = DueIndex()
    count = 2 * RUN_ENTRIES + 5
    index.add(Entry(each * 7919 % count, each) for each in range(count))
    index.forget(lambda entry: entry.offset == 0)
    taken = [*index.take(count // 2, count), *index.take(count, count)]
    assert [each.due_ms for each in taken] == list(range(1, count))
    assert len(index) == 0


def test_the_index_is_purged_of_what_is_over() -> None:
    index = DueIndex()
    index.add(Entry(each * 7919 % 50_021, each) for each in range(3 * RUN_ENTRIES + 9))
    assert sum(1 for _ in index.purge(lambda entry: entry.offset % 5 > 0)) == 3
    left = [each.offset for each in index.behind(Entry(-1, -1))]
    assert sorted(left) == list(range(0, 3 * RUN_ENTRIES + 9, 5))
    assert len(index) == len(left)
    assert [each.offset for each in index.take(1 << 60, 1 << 20)] == left


def test_many_small_runs_are_merged_in_turns_to_runs_of_the_usual_size() -> None:
    index = DueIndex()
    index.add(Entry(each, each) for each in range(40 * RUN_ENTRIES))
    sizes = [max(map(len, index._runs.values())) for _ in index.purge(lambda it: it.offset % 9 > 0)]
    assert max(sizes) <= RUN_ENTRIES
    assert len(index) == 40 * RUN_ENTRIES // 9 + 1


def test_the_index_forgets_what_is_over_in_turns() -> None:
    index = DueIndex()
    index.add(Entry(each, each) for each in range(2 * MOST_FORGOTTEN))
    index.forget(lambda entry: True)
    assert len(index) == MOST_FORGOTTEN


def test_the_index_is_listed_from_any_place() -> None:
    index = DueIndex()
    count = 2 * RUN_ENTRIES + 5
    index.add(Entry(each * 7919 % count, each) for each in range(count))
    index.take(9, count)
    for start in (-1, 9, 4_000, count - 2, count):
        listed = [each.due_ms for each in index.behind(Entry(start, count))]
        assert listed == list(range(max(start + 1, 10), count))


def test_records_that_wait_for_long_cost_little_among_many_that_do_not() -> None:
    """Of each run a few entries are left; runs with few are merged, and give up what was taken."""
    index, days = DueIndex(), 1 << 34
    for turn in range(40):
        start = turn * RUN_ENTRIES
        index.add(
            Entry(days + each if each % 100 == 0 else each, each)
            for each in range(start, start + RUN_ENTRIES)
        )
        index.take(start + RUN_ENTRIES, RUN_ENTRIES)
    left = 40 * RUN_ENTRIES // 100
    assert abs(len(index) - left) <= 1
    assert len(index._runs) < 2 * SMALL_RUNS
    assert sum(run._size for run in index._runs.values()) <= 2 * left + SMALL_RUNS * SMALL_RUN
    taken = index.take(2 * days, 2 * left)
    assert [each.offset for each in taken] == list(range(0, 40 * RUN_ENTRIES, 100))


def test_r_29_a_record_that_waits_takes_a_few_bytes() -> None:
    """So ten million take less than 128 MiB; `python -m bench.delay` weighs a broker with them."""
    count, hour_ms = 40 * RUN_ENTRIES, 3_600_000
    index, settled = DueIndex(), OffsetSet()
    tracemalloc.start()
    try:
        index.add(Entry((1 << 40) + each * 7919 % hour_ms, each) for each in range(count))
        settled.add_range(count, 2 * count)
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(index) == count
    assert used / count < 10


def test_the_index_takes_times_that_are_far_apart() -> None:
    index = DueIndex()
    entries = [Entry(each << 40, 10_000 - each) for each in range(RUN_ENTRIES)]
    index.add(entries)
    assert index.take(1 << 62, RUN_ENTRIES) == entries


# The fold.


def batch_at(offset: int, *said: Sequence[tuple[str, bytes]], producer_id: int = -1) -> bytearray:
    builder = BatchBuilder(is_transactional=producer_id >= 0)
    for each in said:
        builder.append(100, b"k", b"v", each)
    return builder.build(base_offset=offset, producer_id=producer_id, leader_epoch=2)


def fold(state: SourceState, batch: bytearray, offset: int) -> Folded:
    header = BatchHeader(batch)
    header.base_offset = offset
    found = [each._replace(offset=offset + place) for place, each in enumerate(records(batch))]
    return state.fold(header, found, RULE, lambda at, error: None)


def delay(ms: int) -> list[tuple[str, bytes]]:
    return [(DELAY_MS, b"%d" % ms)]


def test_records_wait_until_a_step_names_them() -> None:
    state = SourceState()
    assert fold(state, batch_at(0, delay(5), delay(1)), 0).entries == [Entry(105, 0), Entry(101, 1)]
    assert (state.folded, state.low) == (2, 0)
    step = Step((plan(1, 1),))
    assert fold(state, encode(step, 0), 2).step == step
    assert (list(state.plans), state.low) == ([1], 0)
    fold(state, encode(Step(ends=(End(1, 50),), dropped=(0,)), 0), 3)
    assert (state.plans, state.low, state.settled.lowest) == ({}, 4, 4)


def test_records_of_a_transaction_wait_once_it_commits() -> None:
    state = SourceState()
    assert fold(state, batch_at(0, delay(5), producer_id=9), 0).entries == []
    assert fold(state, batch_at(1, delay(5), producer_id=8), 1).entries == []
    abort = build_end_transaction_batch(EndTransactionMarker(False, 0), 9, 0, 0)
    commit = build_end_transaction_batch(EndTransactionMarker(True, 0), 8, 0, 0)
    assert fold(state, abort, 2).entries == []
    assert state.low == 1
    assert fold(state, commit, 3).entries == [Entry(105, 1)]
    assert state.low == 1


def test_what_is_deleted_and_what_is_no_record_is_over() -> None:
    state = SourceState()
    state.skip_to(10)
    assert (state.folded, state.low, state.epoch) == (10, 10, -1)
    # A gap before the batch, and a log start inside of it.
    assert fold(state, batch_at(15, delay(1), delay(2)), 15).entries[0].offset == 15
    assert (state.settled.lowest, state.epoch) == (15, 2)
    state = SourceState(16)
    assert [each.offset for each in fold(state, batch_at(15, delay(1), delay(2)), 15).entries] == [
        16
    ]


def test_a_transaction_whose_end_is_deleted_is_not_open_for_ever() -> None:
    state = SourceState()
    fold(state, batch_at(0, delay(5), producer_id=9), 0)
    fold(state, batch_at(1, delay(5)), 1)
    state.skip_to(5)
    assert (state.undecided_count, state.waiting) == (0, 0)
    fold(state, batch_at(5, delay(5)), 5)
    assert state.waiting == 1


def test_a_gap_settles_nothing_below_it() -> None:
    state = SourceState()
    fold(state, batch_at(0, delay(1), delay(2)), 0)
    state.pass_gap(9)
    assert (state.folded, state.low, state.settled.count(0, 9)) == (9, 0, 7)


def test_a_plan_whose_records_are_gone_is_not_made_again() -> None:
    seen = dataclasses.replace(outlook(), log_start=4, deleted={7: None})
    made = draft([], {}, seen, 0)
    gave_up = GaveUp((plan(1, 3, 5), plan(2, 7)), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    replace_in(made, [gave_up], seen, Lead(1, 0))
    assert ([each.offsets for each in made.wanted], made.dropped) == ([(5,)], [3, 7])


def test_a_time_that_was_given_to_what_is_over_by_now_is_not_kept() -> None:
    """In a rewritten log the record is not there any more, and the step is."""
    state = SourceState()
    fold(state, batch_at(0, delay(5)), 0)
    fold(state, encode(Step(moved=(Entry(7, 0), Entry(8, 3))), 0), 4)
    assert (state.moved, state.settled.lowest) == ({0: 7}, 0)
    fold(state, encode(Step(dropped=(0,)), 0), 5)
    assert (state.moved, state.settled.lowest) == ({}, 6)


def test_an_unreadable_step_is_passed_over() -> None:
    state, told = SourceState(), list[int]()
    builder = BatchBuilder(is_control=True)
    builder.append(0, b"\x00\x00\x75\x31", b"nonsense")
    batch = builder.build()
    state.fold(BatchHeader(batch), records(batch), RULE, lambda at, error: told.append(at))
    assert (told, state.low) == ([0], 1)


BY_KEY = RULE._replace(replaces=True)
KEYED = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"x" * 16, b"x" * 40]),
        st.sampled_from([b"v", b"v", None]),
        st.sampled_from([-1, -1, 8, 9]),
    ),
    max_size=30,
)


def fold_keyed(state: SourceState, offset: int, key: bytes, value: bytes | None, id_: int) -> None:
    builder = BatchBuilder(is_transactional=id_ >= 0)
    builder.append(100, key, value)
    batch = builder.build(base_offset=offset, producer_id=id_)
    state.fold(BatchHeader(batch), records(batch), BY_KEY, lambda at, error: None)


def fold_end(state: SourceState, offset: int, producer_id: int, *, is_commit: bool) -> None:
    marker = build_end_transaction_batch(EndTransactionMarker(is_commit, 0), producer_id, 0, 0)
    marker[:8] = offset.to_bytes(8, "big")
    state.fold(BatchHeader(marker), records(marker), BY_KEY, lambda at, error: None)


@given(KEYED, st.integers(1, 6))
def test_r_18_of_each_key_the_newest_committed_record_waits(
    sent: list[tuple[bytes, bytes | None, int]], prune_at: int
) -> None:
    """Producer 8 commits in the end, 9 aborts; keys are forgotten early, which changes nothing."""
    state = SourceState()
    newest: dict[bytes, int] = {}
    values = [value for _, value, _ in sent]
    for offset, (key, value, producer_id) in enumerate(sent):
        state.prune_at = prune_at
        fold_keyed(state, offset, key, value, producer_id)
        if producer_id < 0:
            newest[key] = offset
    undecided = [at for at, each in enumerate(sent) if each[2] >= 0]
    assert [at for at in undecided if at in state.settled] == []
    fold_end(state, len(sent), 8, is_commit=True)
    fold_end(state, len(sent) + 1, 9, is_commit=False)
    waiting = [at for at in range(len(sent)) if at not in state.settled]
    for at, (key, _, producer_id) in enumerate(sent):
        if producer_id == 8 and at > newest.get(key, -1):
            newest[key] = at
    assert waiting == sorted(at for at in newest.values() if values[at] is not None)


# Queues.


def test_an_answer_ends_a_plan_and_the_next_is_sent() -> None:
    targets = Targets()
    for each in (plan(1), plan(2, at=1), plan(3, target=T1)):
        targets.add(each)
    first, other = targets.ready(0)
    assert (first.plans[0].plan_id, other.plans[0].plan_id) == (1, 3)
    first.phase = Phase.SENT
    assert targets.ready(0) == [other]
    assert first.on_answer(ErrorCode.NONE, 40, 0) == Ended(plan(1), 40)
    assert first.on_answer(ErrorCode.NONE, OFFSET_FORGOTTEN, 0) == Ended(plan(2, at=1), -1)
    assert other.on_answer(ErrorCode.NONE, 0, 0) is not None
    assert targets.ready(0) == [] == list(targets)


def test_a_fault_that_passes_is_waited_for_longer_each_time() -> None:
    targets = Targets()
    targets.add(plan(1))
    (queue,) = targets.ready(0)
    waits = []
    now = 0
    for _ in range(12):
        assert queue.on_answer(ErrorCode.NOT_ENOUGH_REPLICAS, -1, now) is None
        assert targets.ready(now) == []
        ready_ms = targets.next_ready_ms()
        assert ready_ms is not None
        waits.append(ready_ms - now)
        now = ready_ms
        assert targets.ready(now) == [queue]
    assert waits[:3] == [100, 200, 400]
    assert waits[-1] == LONGEST_REST_MS
    assert not queue.is_fencing


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_fault_that_stays_is_fenced_before_the_plans_are_given_up(code: ErrorCode) -> None:
    targets = Targets()
    targets.add(plan(1))
    targets.add(plan(2, at=1))
    (queue,) = targets.ready(0)
    assert queue.on_answer(code, -1, 0) is None
    assert (queue.is_fencing, queue.phase) == (True, Phase.READY)
    # A fence that fails is repeated, and what it was for is not forgotten.
    queue.on_answer(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, 0)
    assert queue.is_fencing
    assert queue.on_answer(ErrorCode.NONE, FENCED, 0) == GaveUp((plan(1), plan(2, at=1)), code)
    assert targets.ready(1_000) == []


def test_a_plan_written_before_its_producer_was_given_up_is_sent_and_not_forgotten() -> None:
    targets = Targets()
    targets.add(plan(1))
    (queue,) = targets.ready(0)
    queue.on_answer(ErrorCode.MESSAGE_TOO_LARGE, -1, 0)
    queue.on_answer(ErrorCode.NONE, FENCED, 0)
    targets.add(plan(2, at=1))
    (other,) = targets.ready(0)
    assert [*other.plans] == [plan(2, at=1)]
    assert other.on_answer(ErrorCode.INVALID_PRODUCER_EPOCH, -1, 0) is None
    assert isinstance(other.on_answer(ErrorCode.NONE, FENCED, 0), GaveUp)


def test_a_fence_may_find_that_the_batch_is_there() -> None:
    targets = Targets()
    targets.add(plan(1))
    (queue,) = targets.ready(0)
    queue.on_answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1, 0)
    assert queue.on_answer(ErrorCode.NONE, 17, 0) == Ended(plan(1), 17)
    assert not queue.is_fencing


def test_a_newer_producer_waits_for_an_older_one_unless_that_is_alone() -> None:
    targets = Targets()
    targets.add(plan(1))
    targets.add(plan(2, id=8))
    assert [each.producer_id for each in targets.ready(0)] == [7]
    targets = Targets()
    targets.add(plan(1, kind=Kind.ALONE))
    targets.add(plan(2, id=8))
    alone, other = targets.ready(0)
    assert other.producer_id == 8
    # It is tried for ever, seldom, and without a fence: it may be taken one day.
    assert alone.on_answer(ErrorCode.MESSAGE_TOO_LARGE, -1, 0) is None
    assert (alone.is_fencing, alone.ready_at_ms) == (False, LONGEST_REST_MS)


def test_a_target_that_stays_deleted_is_given_up() -> None:
    queue = _queue(plan(1))
    assert queue.on_gone(10, 1_000) is None
    assert queue.on_gone(900, 1_000) is None
    assert queue.on_gone(1_010, 1_000) == GaveUp((plan(1),), ErrorCode.UNKNOWN_TOPIC_ID)
    queue = _queue(plan(1))
    queue.on_gone(10, 1_000)
    queue.on_answer(ErrorCode.NOT_ENOUGH_REPLICAS, -1, 500)
    assert queue.on_gone(1_010, 1_000) is None, "it was there in between"


def _queue(one: Plan) -> TargetQueue:
    targets = Targets()
    targets.add(one)
    (queue,) = targets.ready(0)
    return queue


# Plans.


def test_sequences_run_on_and_ids_are_used_once() -> None:
    lead = Lead(3, 50)
    with pytest.raises(NeedsId):
        lead.plan([Wanted(T0, Kind.DUE, (1,))], 0)
    lead.ids = [7, 8, 9]
    made = lead.plan([Wanted(T0, Kind.DUE, (1, 2)), Wanted(T1, Kind.DUE, (3,))], 0)
    made += lead.plan([Wanted(T0, Kind.DUE, (4,)), Wanted(T0, Kind.ALONE, (5,))], 0)
    assert [(each.producer_id, each.base_sequence) for each in made] == [
        (7, 0),
        (7, 0),
        (7, 2),
        (8, 0),
    ]
    assert len({each.plan_id: None for each in made}) == 4
    lead.give_up(T0, 7)
    (again,) = lead.plan([Wanted(T0, Kind.DUE, (6,))], 0)
    (beside,) = lead.plan([Wanted(T1, Kind.DUE, (7,))], 0)
    assert (again.producer_id, again.base_sequence) == (9, 0)
    assert (beside.producer_id, beside.base_sequence) == (7, 1)


def test_plans_that_were_not_written_leave_no_gap() -> None:
    lead = Lead(3, 50)
    lead.ids = [7]
    lead.plan([Wanted(T0, Kind.DUE, (1,))], 0)
    before = lead.mark()
    first = lead.plan([Wanted(T0, Kind.DUE, (2,))], 0)
    lead.restore(before)
    assert lead.plan([Wanted(T0, Kind.DUE, (2,))], 0) == first
    with pytest.raises(NeedsId):
        lead.plan([Wanted(T0, Kind.DUE, (3,)), Wanted(T0, Kind.ALONE, (4,))], 0)
    (after,) = lead.plan([Wanted(T0, Kind.DUE, (3,))], 0)
    assert after.base_sequence == 2


def test_the_next_leader_numbers_its_plans_differently() -> None:
    old, new = Lead(3, 50), Lead(4, 51)
    old.ids, new.ids = [7], [8]
    many = [Wanted(T0, Kind.ALONE if not each else Kind.DUE, (each,)) for each in range(1, 999)]
    ids = [each.plan_id for each in (*old.plan(many, 0), *new.plan(many, 0))]
    assert len(dict.fromkeys(ids)) == len(ids)


TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("failed", "code", "has_dead_letters", "wanted", "dead"),
    [
        (plan(1, 4, 5), TOO_LARGE, True, [(Kind.DUE, (4,)), (Kind.DUE, (5,))], ()),
        (plan(1, 4, 5, 6), TOO_LARGE, True, [(Kind.DUE, (4,)), (Kind.DUE, (5, 6))], ()),
        (plan(1, 4), TOO_LARGE, True, [], (4,)),
        (plan(1, 4), TOO_LARGE, False, [(Kind.ALONE, (4,))], ()),
        (plan(1, 4, kind=Kind.DEAD_LETTER), TOO_LARGE, True, [(Kind.DEAD_ALONE, (4,))], ()),
        (plan(1, 4, 5), ErrorCode.UNKNOWN_PRODUCER_ID, True, [(Kind.DUE, (4, 5))], ()),
    ],
)
def test_plans_that_were_given_up_are_replaced(
    failed: Plan,
    code: ErrorCode,
    has_dead_letters: bool,
    wanted: list[tuple[Kind, tuple[int, ...]]],
    dead: tuple[int, ...],
) -> None:
    found = replace(GaveUp((failed, plan(2, 9)), code), has_dead_letters=has_dead_letters)
    assert found.ends == (End(1, REPLACED), End(2, REPLACED))
    assert [(each.kind, each.offsets) for each in found.wanted] == [*wanted, (Kind.DUE, (9,))]
    assert found.dead == dead


@pytest.mark.parametrize("code", [TOO_LARGE, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_by_a_clock_that_is_behind_a_plan_is_not_replaced_by_an_earlier_one(
    code: ErrorCode,
) -> None:
    """Its records were due by the clock of the leader that planned them first."""
    given_up = dataclasses.replace(plan(1, 4), planned_ms=900)
    lead = Lead(3, 50)
    lead.ids = [7]
    wanted = replace(GaveUp((given_up,), code), has_dead_letters=False).wanted
    assert [each.planned_ms for each in lead.plan(wanted, 800)] == [900]


def test_records_of_a_deleted_target_are_dead_letters_together() -> None:
    gave_up = GaveUp((plan(1, 4, 5), plan(2, 9)), ErrorCode.UNKNOWN_TOPIC_ID)
    found = replace(gave_up, has_dead_letters=True)
    assert (found.ends, found.wanted) == ((End(1, GONE), End(2, GONE)), ())
    assert found.dead == (4, 5, 9)
    assert replace(gave_up, has_dead_letters=False).dead == ()


def test_a_plan_is_made_again_without_the_records_that_are_not_there() -> None:
    """Otherwise it would be given up and made again for ever."""
    wanted = [Wanted(T0, Kind.DUE, (3, 5, 7)), Wanted(T0, Kind.DUE, (5,))]
    kept, deleted = without_deleted(wanted, lambda offset: offset in (3, 5))
    assert ([each.offsets for each in kept], deleted) == ([(7,)], [3, 5, 5])


def asked(told: list[Refired], first: int = 0, last: int = -1, since_ms: int = 0) -> Refire:
    return Refire(first, last, since_ms, -1, -1, told.append)


def test_what_is_repeated_is_in_a_range_since_a_time_and_not_on_its_way() -> None:
    old = dataclasses.replace(plan(1, 3, 5, 8, 9), planned_ms=100)
    assert asked([]).of(old, {8: None}) == (3, 5, 9)
    assert asked([], 4, 9, since_ms=100).of(old, {}) == (5, 8)
    assert asked([], since_ms=101).of(old, {}) == ()
    assert asked([]).of(dataclasses.replace(old, kind=Kind.DEAD_LETTER), {}) == ()


def test_plans_that_were_replaced_or_given_up_are_not_repeated_and_each_record_is_once() -> None:
    found = Found(asked([]), [plan(9, 2)])
    found.add(Step((plan(1, 1, 2, 3), plan(2, 4), plan(3, 5))), is_asked=True)
    knew_all = [found.knows_all_ends]
    ends = (End(1, REPLACED), End(2, GONE), End(3, 17))
    found.add(Step((plan(4, 1), plan(5, 3, 5)), ends), is_asked=True)
    found.add(Step((plan(6, 8),), (End(4, 18), End(77, 5))), is_asked=False)
    delivered = [(one.plan_id, offsets) for one, offsets in found.delivered()]
    assert delivered == [(3, (5,)), (4, (1,)), (5, (3,))]
    found.add(Step((), (End(5, REPLACED),)), is_asked=False)
    assert [*knew_all, found.knows_all_ends] == [False, True]
    assert [one.plan_id for one, _ in found.delivered()] == [3, 4]


def test_a_request_to_repeat_is_answered_once_it_is_committed_or_the_leader_changes() -> None:
    told: list[Refired] = []
    refires = Refires()
    for _ in range(MOST_REQUESTS + 1):
        refires.ask(asked(told))
    assert told == [Refired(ErrorCode.THROTTLING_QUOTA_EXCEEDED)]
    refires.on_written(Refired(records=7))
    assert len(told) == 1
    refires.on_committed()
    assert told[1:] == [Refired(records=7)]
    refires.on_written(Refired(records=8))
    refires.fail()
    refires.on_committed()
    assert told[2:] == [Refired(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * (MOST_REQUESTS - 1)
    assert not refires


def test_batches_are_bounded_in_number_and_size() -> None:
    placed = [(T0, 1), (T1, 2), (T0, 3), (T0, 4), (T0, 5)]
    by_number = grouped(placed, 2, [1] * 5, lambda _: 100)
    assert [each.offsets for each in by_number] == [(1, 3), (4, 5), (2,)]
    by_size = grouped(placed, 9, [60, 1, 60, 30, 200], lambda _: 100)
    assert [each.offsets for each in by_size] == [(1,), (3, 4), (5,), (2,)]


# Where records go, and as what.

TOPICS = {"now": Topic("now", b"n" * 16), "dead": Topic("dead", b"d" * 16)}
for _topic in TOPICS.values():
    _topic.partitions.update(dict.fromkeys(range(4)))  # type: ignore[arg-type]


def record(offset: int, *headers: tuple[str, bytes], key: bytes | None = None) -> Record:
    return Record(offset, 1_000, TimestampType.CREATE_TIME, key, b"v", headers)


def with_delay(config: DelayConfig) -> TopicConfig:
    return dataclasses.replace(from_mapping(TopicConfig, {}), delay=config)


def outlook(**settings: str) -> Outlook:
    given = {"target": "now", **settings}
    return Outlook(S, with_delay(DelayConfig(**given)), TOPICS.get, 2)  # type: ignore[arg-type]


def test_a_record_waits_for_its_target_for_some_time() -> None:
    due, found = [Entry(5, 4)], {4: record(4)}
    gone = outlook(target="gone", dead_letters="dead")
    assert draft(due, found, gone, 3_600_999).waiting == {"gone": due}
    made = draft(due, found, gone, 3_601_000)
    (wanted,) = made.wanted
    assert (wanted.kind, wanted.target.partition) == (Kind.DEAD_LETTER, 3)
    assert draft(due, found, outlook(target="gone"), 3_601_000).dropped == [4]


def test_a_record_that_is_gone_or_goes_round_is_not_forwarded() -> None:
    round_ = record(5, (HOPS, b"%d" % HOPS_MAX))
    made = draft([Entry(5, 4), Entry(5, 5)], {5: round_}, outlook(dead_letters="dead"), 10)
    assert made.dropped == [4]
    assert [(each.kind, each.code) for each in made.wanted] == [
        (Kind.DEAD_LETTER, ErrorCode.INVALID_RECORD)
    ]


def test_what_was_deleted_of_a_plan_is_not_planned_again() -> None:
    made, lead = draft([], {}, outlook(), 0), Lead(0, 0)
    gave_up = [GaveUp((plan(1, 1, 2, 3),), ErrorCode.UNKNOWN_PRODUCER_ID)]
    assert replace_in(made, gave_up, outlook(), lead) == [End(1, REPLACED)]
    assert ([each.offsets for each in made.wanted], made.dropped) == ([(2, 3)], [1])


def test_keys_go_where_javas_partitioner_puts_them() -> None:
    config = DelayConfig(target="now")
    assert partition_of(record(1, key=b"21"), S, 1_000, config) == 340
    assert partition_of(record(1), S, 2, config) == 1
    same = DelayConfig(target="now", partition="same")
    assert partition_of(record(1, key=b"21"), S, 1_000, same) == 3


@pytest.mark.parametrize(("mode", "timestamp"), [("due", 1_007), ("original", 1_000), ("now", 5)])
def test_a_forwarded_record_says_where_it_comes_from(mode: str, timestamp: int) -> None:
    said = (("x", b"1"), (DELAY_MS, b"7"))
    config = DelayConfig(target="now", timestamp=mode)
    batch = build(plan(1, 4, at=12), {4: record(4, *said, key=b"k")}, S, with_delay(config))
    header = BatchHeader(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        7,
        FORWARD_EPOCH,
        12,
    )
    (found,) = records(batch, check_crc=True)
    assert (found.key, found.value, found.timestamp) == (b"k", b"v", timestamp)
    assert dict(found.headers) == {
        "x": b"1",
        SOURCE: b"later/3/4",
        DUE: b"1007",
        HOPS: b"1",
    }


# Times.


@pytest.mark.parametrize(
    ("rule", "headers", "due"),
    [
        (RULE, (), 0),
        (RULE, ((DELIVER_AT, b"77"),), 77),
        (RULE, ((DELAY_MS, b"77"),), 1_077),
        (RULE, ((DELAY_MS, b"1"), (DELAY_MS, b"2")), 1_002),
        (DelayRule("timestamp"), ((DELAY_MS, b"77"),), 1_000),
        (DelayRule("fixed", 5), ((DELAY_MS, b"77"),), 1_005),
    ],
)
def test_when_a_record_is_due(
    rule: DelayRule, headers: Sequence[tuple[str, bytes]], due: int
) -> None:
    assert rule.due_of(1_000, headers) == due


@pytest.mark.parametrize(
    "headers",
    [
        ((DELAY_MS, b""),),
        ((DELAY_MS, b"-1"),),
        ((DELAY_MS, b" 1"),),
        ((DELAY_MS, b"\xd9\xa1"),),
        ((DELIVER_AT, b"9" * 20),),
        ((DELAY_MS, b"1"), (DELIVER_AT, b"1")),
    ],
)
def test_times_that_say_nothing(headers: Sequence[tuple[str, bytes]]) -> None:
    with pytest.raises(ApiError) as refused:
        RULE.due_of(1_000, headers)
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert RULE.due_or_at_once(1_000, headers) == 0


def test_a_delay_has_a_bound_and_needs_a_timestamp() -> None:
    with pytest.raises(ApiError) as refused:
        RULE.check(1_000, ((DELIVER_AT, b"1002001"),), 2_000)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    RULE.check(1_000, ((DELIVER_AT, b"1002000"),), 2_000)
    with pytest.raises(ApiError):
        DelayRule("fixed", 5).due_of(-1, ())
