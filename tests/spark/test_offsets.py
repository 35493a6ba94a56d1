"""What a micro-batch reads is arithmetic: nothing twice, nothing forgotten, nobody starved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.spark import offsets
from minikafka.spark.offsets import OffsetRange
from minikafka.spark.options import OptionError
from minikafka.spark.source_options import Bound, Splitting


def test_words_and_numbers_are_resolved() -> None:
    earliest, latest = {"a": {0: 5, 1: 0}}, {"a": {0: 9, 1: 3}}
    assert offsets.resolve(Bound("o", "earliest"), earliest, latest) == earliest
    assert offsets.resolve(Bound("o", "latest"), earliest, latest) == latest
    wanted = {"a": {0: -2, 1: -1}}
    assert offsets.resolve(Bound("o", wanted), earliest, latest) == {"a": {0: 5, 1: 3}}


@pytest.mark.parametrize("wanted", [{"a": {0: 1}}, {"a": {0: 1, 1: 1, 2: 1}}])
def test_a_json_names_exactly_the_partitions(wanted: dict[str, dict[int, int]]) -> None:
    with pytest.raises(OptionError, match="name every partition"):
        offsets.resolve(Bound("startingOffsets", wanted), {"a": {0: 0, 1: 0}}, {"a": {0: 1, 1: 1}})


OFFSETS = st.dictionaries(st.integers(0, 5), st.integers(0, 1000), min_size=1)


@given(OFFSETS, st.data(), st.integers(1, 500))
def test_a_limit_is_kept_and_always_makes_progress(
    start: dict[int, int], data: st.DataObject, limit: int
) -> None:
    latest = {p: o + data.draw(st.integers(0, 1000)) for p, o in start.items()}
    end = offsets.limited({"t": start}, {"t": latest}, limit)["t"]
    moved = sum(end[p] - start[p] for p in start)
    assert all(start[p] <= end[p] <= latest[p] for p in start)
    assert moved <= limit
    assert moved > 0 or latest == start


@given(OFFSETS, st.data(), st.integers(1, 500))
def test_a_limit_is_used_up_and_each_partition_gets_something(
    start: dict[int, int], data: st.DataObject, limit: int
) -> None:
    latest = {p: o + data.draw(st.integers(0, 1000)) for p, o in start.items()}
    end = offsets.limited({"t": start}, {"t": latest}, limit)["t"]
    assert sum(end[p] - start[p] for p in start) == min(
        limit, sum(latest[p] - start[p] for p in start)
    )
    behind = [p for p in start if latest[p] > start[p]]
    moved = [p for p in behind if end[p] > start[p]]
    assert len(moved) == min(limit, len(behind))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=9), st.integers(1, 9))
def test_below_one_for_each_partition_they_take_turns(behind: list[int], limit: int) -> None:
    start = {"t": dict.fromkeys(range(len(behind)), 0)}
    # What is behind never shrinks here: others write as fast as is read.
    for _ in range(len(behind)):
        latest = {"t": {p: o + behind[p] for p, o in start["t"].items()}}
        start = offsets.limited(start, latest, limit)
    assert all(start["t"].values())


def test_no_partition_is_starved_by_large_ones() -> None:
    latest = {"t": {0: 1_000_000, 1: 3, 2: 2_000_000}}
    end = offsets.limited({"t": {0: 0, 1: 0, 2: 0}}, latest, 100)
    assert end["t"][1] == 1
    assert end["t"][2] > 2 * end["t"][0] - 3


def test_ranges_leave_out_what_is_empty() -> None:
    found = offsets.ranges({"a": {0: 3, 1: 4}}, {"a": {0: 5, 1: 4}})
    assert found == [OffsetRange("a", 0, 3, 5)]


def test_new_partitions_are_read_from_their_beginning() -> None:
    start = offsets.with_new_partitions({"a": {0: 7}}, {"a": {0: 9, 1: 9}}, {"a": {0: 0, 1: 2}})
    assert start == {"a": {0: 7, 1: 2}}


def test_earliest_and_latest_are_copies() -> None:
    latest = {"a": {0: 9}}
    offsets.resolve(Bound("o", "latest"), {"a": {0: 0}}, latest)["a"][0] = 1
    assert latest == {"a": {0: 9}}


@pytest.mark.parametrize("now", [{}, {"a": {}}, {"a": {0: 4}}])
def test_vanished_and_shrunken_partitions_are_losses(now: dict[str, dict[int, int]]) -> None:
    (why,) = offsets.losses({"a": {0: 5}}, now)
    assert why.startswith("a-0 was read up to 5")


def test_what_went_on_is_no_loss() -> None:
    assert offsets.losses({"a": {0: 5}}, {"a": {0: 5, 1: 0}, "b": {0: 0}}) == []


@pytest.mark.parametrize("limit", [None, 1, 100])
def test_a_shrunken_log_is_read_on_from_its_end(limit: int | None) -> None:
    assert offsets.limited({"a": {0: 9}}, {"a": {0: 4}}, limit) == {"a": {0: 4}}


def test_a_target_cuts_off_and_leaves_out_what_it_does_not_know() -> None:
    found = offsets.at_most({"a": {0: 9, 1: 9}, "b": {0: 1}}, {"a": {0: 4}}, {})
    assert found == {"a": {0: 4}}


def test_offsets_outside_the_log_are_named_and_moved_to_its_ends() -> None:
    earliest, latest = {"a": {0: 5, 1: 5, 2: 5}}, {"a": {0: 9, 1: 9, 2: 9}}
    wanted = {"a": {0: 4, 1: 10, 2: 9}}
    assert [each.split()[0] for each in offsets.outside(wanted, earliest, latest)] == ["a-0", "a-1"]
    assert offsets.clamped(wanted, earliest, latest) == {"a": {0: 5, 1: 9, 2: 9}}


def test_new_partitions_are_those_without_a_start() -> None:
    assert offsets.new_partitions({"a": {0: 1}}, {"a": {0: 1, 1: 2}, "b": {0: 3}}) == {
        "a": (1,),
        "b": (0,),
    }


def test_the_checkpoint_form_goes_both_ways() -> None:
    assert offsets.to_json({"a": {10: 1, 2: 3}}) == {"a": {"2": 3, "10": 1}}
    assert offsets.from_json({"a": {"2": 3}}) == {"a": {2: 3}}


def test_a_partition_that_the_target_lacks_stays_where_the_query_is() -> None:
    found = offsets.at_most({"a": {0: 9, 1: 9}}, {"a": {0: 4}}, {"a": {1: 6}})
    assert found == {"a": {0: 4, 1: 6}}
    assert offsets.at_most({"b": {0: 9}}, {"a": {0: 4}}, {"b": {0: 2}}) == {"b": {0: 2}}


# -- ranges cut into tasks


def cut(sizes: list[int], how: Splitting) -> list[tuple[int, int, int]]:
    ranges = [OffsetRange("a", p, 100, 100 + size) for p, size in enumerate(sizes)]
    return [(part.partition, part.start, part.end) for part in offsets.split(ranges, how)]


def test_ranges_stay_whole_unless_told() -> None:
    assert cut([5, 7], Splitting()) == [(0, 100, 105), (1, 100, 107)]
    assert cut([5, 7], Splitting(min_partitions=2)) == [(0, 100, 105), (1, 100, 107)]
    assert cut([5, 7], Splitting(max_records=7)) == [(0, 100, 105), (1, 100, 107)]
    assert cut([], Splitting(min_partitions=9, max_records=1)) == []


def test_no_part_has_more_records_than_allowed() -> None:
    assert cut([5, 7], Splitting(max_records=3)) == [
        (0, 100, 102),
        (0, 102, 105),
        (1, 100, 102),
        (1, 102, 104),
        (1, 104, 107),
    ]


def test_the_largest_are_cut_until_there_are_enough() -> None:
    found = cut([10, 90], Splitting(min_partitions=4))
    assert found == [(0, 100, 110), (1, 100, 130), (1, 130, 160), (1, 160, 190)]
    found = cut([2, 1], Splitting(min_partitions=50))
    assert found == [(0, 100, 101), (0, 101, 102), (1, 100, 101)], "not below one offset"


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=8),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 300),
)
def test_parts_cover_the_ranges_once(
    sizes: list[int], min_partitions: int | None, max_records: int | None
) -> None:
    found = cut(sizes, Splitting(min_partitions, max_records))
    covered = [(p, o) for p, start, end in found for o in range(start, end)]
    assert covered == [(p, 100 + n) for p, size in enumerate(sizes) for n in range(size)]
    assert all(start < end for _, start, end in found)
    assert len(found) >= min(min_partitions or 1, sum(sizes))
    assert max_records is None or all(end - start <= max_records for _, start, end in found)


# -- what does not fit


@pytest.mark.parametrize("held", [5, None, [1], {"t": 5}, {"t": {"0": "5"}}, {"t": {"x": 5}}])
def test_a_checkpoint_of_another_source(held: object) -> None:
    with pytest.raises(offsets.ForeignOffsets, match="checkpointLocation of its own"):
        offsets.from_json(held)


def test_a_start_behind_the_end() -> None:
    starting, ending = Bound("startingTimestamp", "earliest"), Bound("endingOffsets", "latest")
    offsets.check_not_reversed(starting, {"a": {0: 5}}, ending, {"a": {0: 5}})
    with pytest.raises(OptionError, match="a-0 would end at 4, before its start at 5") as caught:
        offsets.check_not_reversed(starting, {"a": {0: 5}}, ending, {"a": {0: 4}})
    assert caught.value.option == "endingOffsets"
