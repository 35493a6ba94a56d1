"""Micro-batches wait for enough to read, but not for ever."""

from minikafka.spark.admission import Gathering
from minikafka.spark.source_options import Admission


def test_without_a_minimum_nothing_waits() -> None:
    gathering = Gathering(Admission())
    assert not gathering.is_too_early(0, 0)
    assert not gathering.is_too_early(1, 0)


def test_a_query_begins_with_what_there_is_then_gathers() -> None:
    gathering = Gathering(Admission(min_offsets=10, max_delay_ms=60_000))
    assert not gathering.is_too_early(1, 100.0)
    assert gathering.is_too_early(9, 101.0)
    assert not gathering.is_too_early(10, 102.0)
    assert gathering.is_too_early(9, 161.9), "counted from the last batch"
    assert not gathering.is_too_early(1, 162.0)


def test_nothing_is_not_a_batch_and_starts_no_new_wait() -> None:
    gathering = Gathering(Admission(min_offsets=10, max_delay_ms=60_000))
    assert gathering.is_too_early(0, 100.0)
    assert not gathering.is_too_early(1, 101.0), "still the first"
    assert gathering.is_too_early(0, 500.0)
    assert not gathering.is_too_early(1, 501.0), "long after the last batch"
