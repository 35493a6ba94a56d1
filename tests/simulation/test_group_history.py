"""The checker of group histories finds each fault that it should find."""

from .group_history import GroupHistory

PLACE = ("events", 0)


def read(history: GroupHistory, member: str, *offsets: int) -> None:
    for offset in offsets:
        history.on_polled(member, PLACE, offset)


def findings(history: GroupHistory) -> list[str]:
    history.final = history.final or dict(history.committed)
    return history.check({})


def test_a_partition_that_moves_in_order_is_right() -> None:
    history = GroupHistory()
    history.on_assigned("a", PLACE, 1)
    read(history, "a", 0, 1, 2)
    history.on_committed(PLACE, 2)
    history.on_revoked("a", PLACE, 1)
    history.on_assigned("b", PLACE, 2)
    read(history, "b", 2, 3)
    assert findings(history) == []


def test_a_commit_that_is_forgotten() -> None:
    history = GroupHistory()
    history.on_assigned("a", PLACE, 1)
    read(history, "a", 0, 1)
    history.on_committed(PLACE, 2)
    history.on_lost("a", PLACE)
    history.on_assigned("b", PLACE, 2)
    read(history, "b", 1)
    history.final = {PLACE: 1}
    back, end = history.check({})
    assert "went back: 2 was committed before b was assigned, and it begins at 1" in back
    assert "2 was committed, and in the end 1 is" in end
    assert history.check({PLACE: None}) == []


def test_records_that_nobody_reads() -> None:
    history = GroupHistory()
    history.on_assigned("a", PLACE, 1)
    read(history, "a", 0, 1)
    history.on_revoked("a", PLACE, 1)
    history.on_assigned("b", PLACE, 2)
    read(history, "b", 3)
    assert findings(history) == ["group: events-0: skipped: b begins at 3, read up to 2"]


def test_a_gap_within_one_holding() -> None:
    history = GroupHistory()
    history.on_assigned("a", PLACE, 1)
    read(history, "a", 0, 1, 1)
    assert findings(history) == ["group: events-0: a got 1 where 2 was due"]


def test_two_owners_are_found_when_the_first_knew_of_the_same_generation() -> None:
    history = GroupHistory()
    history.on_assigned("a", PLACE, 1)
    history.on_assigned("b", PLACE, 2)
    history.on_revoked("a", PLACE, 2)
    (found,) = findings(history)
    assert "owned twice: b was given it in generation 2" in found


def test_one_who_was_out_of_the_group_is_no_owner() -> None:
    history = GroupHistory()
    history.on_assigned("a", PLACE, 1)
    history.on_assigned("b", PLACE, 2)
    history.on_lost("a", PLACE)
    history.on_assigned("c", PLACE, 1)
    history.on_revoked("c", PLACE, 1)
    assert findings(history) == []


def test_records_of_what_is_not_held() -> None:
    history = GroupHistory()
    history.on_assigned("a", PLACE, 1)
    history.on_died("a")
    read(history, "a", 0)
    assert findings(history) == ["group: events-0: a was given offset 0 of what it does not hold"]


def test_what_was_deleted_is_not_skipped() -> None:
    history = GroupHistory(may_be_gone_below=lambda partition: 5)
    history.on_assigned("a", PLACE, 1)
    read(history, "a", 0, 5)
    assert findings(history) == []
    read(history, "a", 8)
    assert "group: events-0: a got 8 where 6 was due" in findings(history)
