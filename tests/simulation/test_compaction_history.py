"""The checker of a compacted topic: the newest value of each key stays, nothing comes back."""

from .compaction_workload import ABORTED, StateHistory, Write


def written() -> StateHistory:
    """Return a history in which a has the values 0 and 2, and b the value 1 and a tombstone (3).

    All writes are acknowledged at the offset of their number.
    """
    writes = [
        Write(key, number, number == 3, number) for number, key in enumerate((b"a", b"b") * 2)
    ]
    return StateHistory(writes, [(2, b"a", b"a:2"), (3, b"b", None)])


def test_the_newest_values_are_enough() -> None:
    history = written()
    assert history.check() == []
    history.final.pop()
    assert history.check() == [], "a tombstone goes, too"


def test_the_newest_acknowledged_value_must_be_there() -> None:
    history = written()
    history.final[0] = (0, b"a", b"a:0")
    assert history.check() == [
        "compacted: b'a' has b'a:0' (offset 0), where b'a:2' was acknowledged at 2"
    ]


def test_what_was_deleted_does_not_come_back() -> None:
    history = written()
    history.final = [(1, b"b", b"b:1"), (2, b"a", b"a:2")]
    assert history.check() == [
        "compacted: b'b' has b'b:1' (offset 1), where None was acknowledged at 3"
    ]


def test_an_unacknowledged_value_may_be_the_newest() -> None:
    history = written()
    history.writes.append(Write(b"a", 4, False))
    assert history.check() == []
    history.final.append((5, b"a", b"a:4"))
    assert history.check() == []


def test_offsets_are_kept_and_nothing_aborted_is_seen() -> None:
    history = written()
    history.final[0] = (1, b"a", b"a:2")
    assert history.check() == ["compacted: b'a:2' is at offset 1, not at 2"]
    history = written()
    history.final.insert(0, (0, b"b", ABORTED))
    assert history.check() == ["compacted: b'aborted' of b'b' at offset 0 is no value of it"]
