"""Patterns, replacements and date formats as Java has them, or refused when they are configured."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect.config_def import BadConfig
from minikafka.connect.data import DataError
from minikafka.connect.pipeline import SinkPipeline
from minikafka.connect.records import Header, SinkRecord
from minikafka.connect.transforms.date_format import DateFormat
from minikafka.connect.transforms.predicates import (
    HasHeaderKey,
    RecordIsTombstone,
    TopicNameMatches,
)
from minikafka.connect.transforms.regex_router import RegexRouter

from .pipeline_support import PLAIN_JSON, consumed, find, source

AT = datetime(2001, 2, 3, 14, 5, 6, 7_000, UTC)


def routed(regex: str, replacement: str, topic: str) -> Any:
    router = RegexRouter()
    router.configure({"regex": regex, "replacement": replacement})
    return router.apply(source("v", topic=topic)).topic


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "expected"),
    [
        ("(.*)", "prefix-$1", "orig", "prefix-orig"),
        ("(.*)-(\\d\\d\\d\\d)-(.*)", "$2-$1-$3", "a-1234-b", "1234-a-b"),
        ("orig", "new", "orig2", "orig2"),  # the whole topic must match
        ("(a)(.*)", "$12", "ab", "a2"),  # there is no group 12
        ("(?<n>.*)", "x-${n}", "ab", "x-ab"),
        ("(.*)", "\\$1-$1", "ab", "$1-ab"),
        ("(x)?(.*)", "[$1]$2", "ab", "[]ab"),
        (".*", "$0$0", "ab", "abab"),
        ("a|ab", "X", "ab", "Xb"),  # matched whole, and then the first match is replaced
    ],
)
def test_x_27_a_topic_is_renamed_as_by_java(
    regex: str, replacement: str, topic: str, expected: str
) -> None:
    assert routed(regex, replacement, topic) == expected


@pytest.mark.parametrize(
    ("regex", "replacement", "why"),
    [
        ("(", "x", "not a regular expression"),
        ("a(?=b)", "x", "no look-around"),
        (r"(a)\1", "x", "no back-references"),
        ("(.*)", "$2", "no group 2"),
        ("(.*)", "${n}", "no group n"),
        ("(.*)", "a$", "alone"),
        ("(.*)", "a\\", "alone"),
    ],
)
def test_x_27_what_re2_or_java_lack_is_refused(regex: str, replacement: str, why: str) -> None:
    with pytest.raises(BadConfig) as caught:
        routed(regex, replacement, "t")
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "2001-02-03T14:05:06.007Z"),
        ("yyyyMMddHHmmss", "20010203140506"),
        ("dd MMM yyyy hh:mm:ss.S a", "03 Feb 2001 02:05:06.7 PM"),
        ("EEE, d MMMM yyyy H:m:s.SSS Z", "Sat, 3 February 2001 14:5:6.007 +0000"),
        ("EEEE yyyy D kk:mm:ss,SSS z", "Saturday 2001 34 14:05:06,007 UTC"),
        ("yyyy.MM.dd KK:mm:ss.SSS aXXX u", "2001.02.03 02:05:06.007 PMZ 6"),
        ("'o''clock' yyyy", "o'clock 2001"),
        ("''yyyy", "'2001"),
    ],
)
def test_x_27_a_date_is_written_and_read_as_by_java(pattern: str, text: str) -> None:
    form = DateFormat(pattern)
    assert form.format(AT) == text
    assert form.format(form.parse(text)) == text


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyy-MM-dd", "2001-02-03T99", datetime(2001, 2, 3, tzinfo=UTC)),
        ("yyyy-MM-dd", "2001-13-32", datetime(2002, 2, 1, tzinfo=UTC)),
        ("yyyy-MM-dd", "2001-2-3", datetime(2001, 2, 3, tzinfo=UTC)),
        ("HH:mm", "25:61", datetime(1970, 1, 2, 2, 1, tzinfo=UTC)),
        ("hh a", "12 am", datetime(1970, 1, 1, tzinfo=UTC)),
        ("hh a", "12 PM", datetime(1970, 1, 1, 12, tzinfo=UTC)),
        ("kk", "24", datetime(1970, 1, 1, tzinfo=UTC)),
        ("yyyy HH Z", "2001 00 +0130", datetime(2000, 12, 31, 22, 30, tzinfo=UTC)),
        ("yyyy HHX", "2001 00-01", datetime(2001, 1, 1, 1, tzinfo=UTC)),
        ("d MMM yyyy", "3 FEBRUARY 2001", datetime(2001, 2, 3, tzinfo=UTC)),
    ],
)
def test_x_27_reading_dates_is_lenient(pattern: str, text: str, expected: datetime) -> None:
    assert DateFormat(pattern).parse(text) == expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2001/02/03"),
        ("ss.SSS", "06.007123"),  # Java reads 7123 milliseconds
        ("yyyy", "99999"),
        ("yyyy z", "2001 PST"),
        ("yy", "01"),
    ],
)
def test_x_27_a_text_of_another_form_is_refused(pattern: str, text: str) -> None:
    with pytest.raises(DataError):
        DateFormat(pattern).parse(text)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("YYYY-MM-dd", "write y"),
        ("SSSSSS", "at most SSS"),
        ("w", "locale"),
        ("G", "era"),
        ("b", "no letter"),
        ("yyyy'T", "quote"),
        ("y" * 300, "longer"),
    ],
)
def test_x_27_letters_that_mislead_are_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DateFormat(pattern)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))
def test_x_27_what_was_written_is_read_again(at: datetime) -> None:
    form = DateFormat("yyyy-MM-dd HH:mm:ss.SSS")
    kept = at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=UTC)
    assert form.parse(form.format(at)) == kept


# ------------------------------------------------------------------------------------ predicates


def test_predicates_name_records() -> None:
    matches, has = TopicNameMatches(), HasHeaderKey()
    matches.configure({"pattern": "my-prefix-.*"})
    has.configure({"name": "a"})
    assert matches.test(source("v", topic="my-prefix-x"))
    assert not matches.test(source("v", topic="x-my-prefix-x"))
    assert has.test(source("v", headers=(Header("a", None),)))
    assert not has.test(source("v", headers=(Header("b", 1),)))
    assert RecordIsTombstone().test(source(None))
    assert not RecordIsTombstone().test(source(""))
    for predicate, settings in ((matches, {"pattern": "("}), (has, {"name": ""})):
        with pytest.raises(BadConfig):
            predicate.configure(settings)


@pytest.mark.parametrize(("negate", "kept"), [("false", [b"1"]), ("true", [None])])
def test_x_26_a_filter_drops_tombstones_or_all_others(
    negate: str, kept: list[bytes | None]
) -> None:
    props = {
        **PLAIN_JSON,
        "transforms": "drop",
        "transforms.drop.type": "transforms.filter:Filter",
        "transforms.drop.predicate": "gone",
        "transforms.drop.negate": negate,
        "predicates": "gone",
        "predicates.gone.type": "transforms.predicates:RecordIsTombstone",
    }
    outcomes = SinkPipeline(props, {}, find).apply([consumed(b"1"), consumed(None)])
    found = [each for each in outcomes if isinstance(each, SinkRecord)]
    assert [each.original.value for each in found] == kept  # type: ignore[attr-defined]


def test_x_26_a_tombstone_passes_what_is_not_for_it() -> None:
    props = {
        **PLAIN_JSON,
        "transforms": "key",
        "transforms.key.type": "transforms.value_to_key:ValueToKey",
        "transforms.key.fields": "a",
        "transforms.key.predicate": "gone",
        "transforms.key.negate": "true",
        "predicates": "gone",
        "predicates.gone.type": "transforms.predicates:RecordIsTombstone",
    }
    outcomes = SinkPipeline(props, {}, find).apply([consumed(b'{"a":1}'), consumed(None)])
    assert [each.key for each in outcomes if isinstance(each, SinkRecord)] == [{"a": 1}, "k"]
