from collections.abc import Sequence

import pytest

from minikafka.protocol.delays import DelayRule, forwarded_headers
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.forwarding_keys import TARGET as TARGET_KEY
from minikafka.protocol.forwarding_keys import TARGETS, named_topics
from minikafka.protocol.header_targets import (
    PARTITION,
    TARGET,
    check_list,
    check_target,
    read_partition,
)
from minikafka.protocol.records.record_checks import RecordRules, judge_in_full
from minikafka.protocol.records.record_python import Headers
from minikafka.protocol.records.records import BatchBuilder

ALLOWED = ("orders", "eu-*", "s?")


@pytest.mark.parametrize("name", ["orders", "eu-", "eu-west.1", "s1"])
def test_names_and_patterns_say_which_topics_a_record_may_name(name: str) -> None:
    assert check_target([(TARGET, b"no"), (TARGET, name.encode())], ALLOWED) == name


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([], "must name the target"),
        ([(TARGET, None)], "must name the target"),
        ([(TARGET, b"\xff")], "must name the target"),
        ([(TARGET, b"order")], "'order' is not among"),
        ([(TARGET, b"xeu-")], "'xeu-' is not among"),
        ([(TARGET, b"s12")], "'s12' is not among"),
        ([(TARGET, b"[s]1")], "is not among"),
    ],
)
def test_a_record_that_names_another_or_none_is_refused(headers: Headers, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        check_target(headers, ALLOWED)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_no_pattern_allows_an_internal_topic() -> None:
    with pytest.raises(ApiError, match="not among"):
        check_target([(TARGET, b"__consumer_offsets")], ("*",))


@pytest.mark.parametrize("targets", [(), ("",), ("a/b",), ("[ab]",), ("x" * 250,), ("a",) * 33])
def test_a_list_that_cannot_be_meant_is_refused(targets: Sequence[str]) -> None:
    with pytest.raises(ValueError, match="name"):
        check_list(targets)


def test_a_partition_is_a_number_and_the_last_header_counts() -> None:
    assert read_partition([]) is None
    assert read_partition([(PARTITION, b"x"), (PARTITION, b"17")]) == 17
    for value in (None, b"", b"-1", b"1" * 10):
        with pytest.raises(ApiError, match="is no number"):
            read_partition([(PARTITION, value)])


def test_the_verdict_of_a_batch_names_each_target_with_its_first_record() -> None:
    rules = RecordRules(delay=DelayRule("header", max_ms=9, targets=ALLOWED))

    def batch_of(*names: bytes) -> bytes:
        batch = BatchBuilder()
        for name in names:
            batch.append(5, None, b"v", [(TARGET, name)])
        return bytes(batch.build())

    judged = judge_in_full(batch_of(b"orders", b"eu-1", b"orders"), rules)
    assert judged.targets == (("orders", 0), ("eu-1", 1))
    refused = judge_in_full(batch_of(b"orders", b"eu-1", b"orders", b"us"), rules)
    assert (refused.error, refused.targets) == (ErrorCode.INVALID_RECORD, ())
    assert [each.batch_index for each in refused.record_errors] == [3]


def test_what_is_forwarded_names_no_target_any_more() -> None:
    said: Headers = [("a", b"1"), (TARGET, b"orders"), (PARTITION, b"3")]
    assert [name for name, _ in forwarded_headers(said, "t/0/1", 7)] == [
        "a",
        "minikafka-source",
        "minikafka-due",
        "minikafka-hops",
    ]


def test_the_listed_names_are_topics_that_a_topic_forwards_to_and_patterns_are_not() -> None:
    config = {TARGET_KEY: "header", TARGETS: "a, b-*,c"}
    assert named_topics(config) == [(TARGETS, "a"), (TARGETS, "c")]
