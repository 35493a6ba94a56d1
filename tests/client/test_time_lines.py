"""Time lines: the parts that brokers told, put together; what is missing is named."""

from minikafka.client.consumer.time_lines import Moment, TimeLine, What, time_lines
from minikafka.protocol.trace_points import (
    Fetched,
    Forwarded,
    GroupPassed,
    Part,
    PointKey,
    Written,
)

ID = bytes(16)
NOT_PASSED = "no group has been told of that committed past it"
NOT_WRITTEN = "appended and committed: nothing was told; did its leader stop before?"


def told(offset: int, part: Part) -> tuple[PointKey, Part]:
    return PointKey(ID, 0, offset), part


def written(base: int, last: int, *, committed_ms: int = 105, **changes: object) -> Written:
    fields: dict[str, object] = {
        "leader_epoch": 3,
        "size": 1070,
        "acks": -1,
        "client_id": "p",
        "host": "h",
        "principal": "User:p",
        "producer_id": -1,
        "producer_epoch": -1,
        "appended_ms": 100,
        "in_sync": (1, 2, 3),
        "followers": (2, 3),
        "followers_ms": (99, 104),
        **changes,
    }
    return Written(
        broker=1,
        base_offset=base,
        last_offset=last,
        committed_ms=committed_ms,
        **fields,  # type: ignore[arg-type]
    )


def passed(before: int, after: int, group: str = "g", ms: int = 120) -> GroupPassed:
    return GroupPassed(2, group, "m", "c", before, after, 4, ms)


def test_a_time_line_has_its_moments_in_order_and_times_as_they_were_told() -> None:
    (_, own, _) = time_lines(
        [
            told(4, written(2, 5)),
            told(4, Fetched(1, 2, 5, "c", "h", 90)),
            told(4, passed(0, 5, ms=80)),
            told(8, passed(5, 9, ms=200)),
        ],
        3,
    )
    assert own == TimeLine(
        offset=4,
        base_offset=2,
        last_offset=5,
        moments=(
            Moment(What.APPENDED, 100, 1, "p at h", "1,070 bytes, leader epoch 3, User:p"),
            Moment(What.REPLICATED, 99, 1, "broker 2"),
            Moment(What.REPLICATED, 104, 1, "broker 3"),
            Moment(What.COMMITTED, 105, 1),
            Moment(What.FETCHED, 90, 1, "c", "h"),
            Moment(What.PASSED, 80, 2, "g", "5, m"),
        ),
    )


def test_what_is_not_known_is_named() -> None:
    part = written(0, 0, committed_ms=-1, followers=(2,), followers_ms=(101,), why="not within")
    (line,) = time_lines([told(0, part)], 0)
    assert line.missing == (
        "committed: not within",
        "broker 3: had not fetched it then",
        NOT_PASSED,
    )


def test_batches_of_which_their_leader_told_nothing_are_named_by_the_groups_that_passed_them() -> (
    None
):
    parts = [told(16, passed(-1, 18))]
    lines = time_lines(parts, 9)
    assert [each.offset for each in lines] == [8, 12]
    assert [each.missing for each in lines] == [(NOT_WRITTEN,), (NOT_WRITTEN,)]
    assert [each.offset for each in time_lines(parts, 8)] == [4, 8, 12]
    assert [each.offset for each in time_lines(parts, 0)] == [0, 4]
    assert [each.offset for each in time_lines(parts, 100)] == [16]
    assert [each.offset for each in time_lines([told(16, passed(13, 18))], 9)] == [16]
    both = time_lines([told(8, written(6, 8)), *parts], 9)
    assert [(each.base_offset, each.last_offset) for each in both] == [(6, 8), (12, 12)]


def test_only_a_groups_first_commit_past_a_batch_counts() -> None:
    parts = [
        told(4, written(4, 4)),
        told(0, passed(0, 4)),
        told(4, passed(4, 6, ms=130)),
        told(4, passed(0, 5, "other", ms=131)),
        told(4, passed(2, 6, ms=140)),
    ]
    (line,) = (each for each in time_lines(parts, 4) if each.offset == 4)
    groups = [(each.who, each.ms) for each in line.moments if each.what is What.PASSED]
    assert groups == [("g", 130), ("other", 131)]


def test_a_batch_that_was_written_again_after_an_unclean_election_counts_once() -> None:
    parts = [told(4, written(4, 9)), told(4, written(4, 4, leader_epoch=5))]
    (line,) = time_lines(parts, 4)
    assert (line.last_offset, "leader epoch 5" in line.moments[0].detail) == (4, True)


def test_the_nearest_batches_are_shown_and_the_record_of_which_it_was_asked() -> None:
    parts = [told(base, written(base, base + 1)) for base in (0, 8, 16, 24)]
    parts.append(told(16, Forwarded(1, 110, 112, ID, 2, 70)))
    parts.append(told(17, Forwarded(1, 110, 113, ID, 1, -1, is_dead_letter=True)))
    assert [each.base_offset for each in time_lines(parts, 12)] == [8, 16]
    _, own, _ = time_lines(parts, 17)
    assert [each for each in own.moments if each.what in (What.PLANNED, What.FORWARDED)] == [
        Moment(What.PLANNED, 110, None, "", "record 17"),
        Moment(What.FORWARDED, 113, 1, "", "record 17: dead letter, partition 1"),
    ]
    (near, _) = time_lines(parts, 12)[::-1]
    assert near.moments[-1].detail == "record 16: partition 2, offset 70"
    assert time_lines([], 12) == []
