"""The header that tells which clusters a record has passed."""

from minikafka.connect.mirror.provenance import HEADER, marked, passed
from minikafka.connect.records import Header


def test_the_source_is_added_behind_the_other_headers() -> None:
    assert marked((("h", b"1"),), "a", "b") == (Header("h", b"1"), Header(HEADER, b"a"))
    assert marked(((HEADER, b"a"), ("h", None)), "b", "c") == (
        Header("h", None),
        Header(HEADER, b"a,b"),
    )
    assert marked(((HEADER, b"a"),), "a", "c") == (Header(HEADER, b"a"),)


def test_a_record_that_passed_the_target_is_dropped() -> None:
    assert marked(((HEADER, b"b,a"),), "a", "b") is None


def test_a_header_that_others_wrote_harms_nothing() -> None:
    assert passed(((HEADER, None),)) == []
    assert passed(((HEADER, b"\xff"),)) == ["\ufffd"]
