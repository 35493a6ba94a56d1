"""Decisions on records that could not be processed, and dead letters."""

from typing import Any

import pytest

from minikafka.client.records import ConsumerRecord
from minikafka.connect.api import Retry
from minikafka.connect.config_def import BadConfig
from minikafka.connect.pipeline import SinkPipeline
from minikafka.connect.records import SinkRecord
from minikafka.connect.states import TaskId
from minikafka.connect.tolerance import (
    DeadLetter,
    Failed,
    FailTask,
    RetryAfter,
    Skip,
    Stage,
    Tolerance,
    Tries,
)

from .pipeline_support import PLAIN_JSON, consumed, find, source

ALL = {"errors.tolerance": "all"}
LETTERS = {**ALL, "errors.deadletterqueue.topic.name": "dlq"}
EXPLAINED = {**LETTERS, "errors.deadletterqueue.context.headers.enable": "true"}
FIRST = Tries(1, 1_000)


def tolerance(**settings: str) -> Tolerance:
    return Tolerance(
        {key.replace("_", "."): value for key, value in settings.items()}, TaskId("files", 2)
    )


def failed(error: Exception | None = None, stage: Stage = Stage.VALUE_CONVERTER) -> Failed:
    return Failed(stage, error or ValueError("no number"), "m.Converter")


def on(props: dict[str, str], failure: Failed, record: Any) -> Any:
    return Tolerance(props, TaskId("files", 2)).on_failure(failure, record, FIRST, 1_000)


def raised() -> ValueError:
    try:
        raise ValueError("no number")
    except ValueError as error:
        return error


def test_x_32_without_tolerance_the_first_bad_record_fails_the_task() -> None:
    props = {**EXPLAINED, "errors.tolerance": "none"}
    decision = on(props, failed(), consumed())
    assert isinstance(decision, FailTask)
    assert "VALUE_CONVERTER, m.Converter: no number" in str(decision.error)
    assert str(decision.error.__cause__) == "no number"  # its trace is in the status


def test_x_30_bad_records_are_dead_letters_with_their_bytes_and_the_others_go_on() -> None:
    records = [
        consumed(b"{" if at % 100 == 99 else b"1", headers=[("h", b"\xff")], offset=at)
        for at in range(1000)
    ]
    decides = Tolerance(EXPLAINED, TaskId("files", 2))
    outcomes = SinkPipeline({}, PLAIN_JSON, find).apply(records)
    letters = [
        decides.on_failure(outcome, record, FIRST, 1_000)
        for record, outcome in zip(records, outcomes, strict=True)
        if isinstance(outcome, Failed)
    ]
    assert sum(isinstance(each, SinkRecord) for each in outcomes) == 990
    for at, decision in enumerate(letters):
        assert isinstance(decision, Skip)
        letter = decision.dead_letter
        assert letter is not None
        assert (letter.topic, letter.key, letter.value, letter.timestamp_ms) == (
            *("dlq", b"k", b"{", 5),
        )
        assert letter.headers[0] == ("h", b"\xff")
        assert dict(letter.headers)["__connect.errors.offset"] == str(at * 100 + 99).encode()
    counts = decides.counts
    assert len(letters) == 10
    assert (
        counts.total_record_failures,
        counts.total_record_errors,
        counts.total_records_skipped,
        counts.deadletterqueue_produce_requests,
        counts.last_error_timestamp,
    ) == (10, 10, 10, 10, 1_000)


def test_x_30_a_dead_letter_tells_why_in_kafkas_headers() -> None:
    decision = on(EXPLAINED, failed(raised()), consumed(offset=7))
    headers = dict(decision.dead_letter.headers)
    trace = headers.pop("__connect.errors.exception.stacktrace").decode()
    assert headers == {
        "__connect.errors.topic": b"orders",
        "__connect.errors.partition": b"1",
        "__connect.errors.offset": b"7",
        "__connect.errors.connector.name": b"files",
        "__connect.errors.task.id": b"2",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"m.Converter",
        "__connect.errors.exception.class.name": b"builtins.ValueError",
        "__connect.errors.exception.message": b"no number",
    }
    assert trace.startswith("Traceback")
    assert trace.endswith("ValueError: no number\n")


def test_x_30_without_the_setting_a_dead_letter_is_the_record_as_it_was() -> None:
    record = consumed(None, None, [("h", None)], timestamp_ms=-1)
    expected = DeadLetter("dlq", None, None, [("h", None)], None)
    assert on(LETTERS, failed(), record) == Skip(expected, None)
    assert on(ALL, failed(), record) == Skip(None, None)
    assert on(EXPLAINED, failed(), source("v")) == Skip(None, None)  # of a source there is none


def test_a_dead_letter_that_was_consumed_keeps_its_story_and_long_texts_are_cut() -> None:
    record = consumed(headers=[("__connect.errors.topic", b"first")])
    letter = on(EXPLAINED, failed(ValueError("é" * 10_000)), record).dead_letter
    topics = [value for key, value in letter.headers if key == "__connect.errors.topic"]
    assert topics == [b"first"]
    headers = dict(letter.headers)
    assert headers["__connect.errors.exception.message"].decode() == "é" * 512
    assert len(headers["__connect.errors.exception.stacktrace"]) <= 4096


def test_x_31_a_dead_letter_that_cannot_be_written_fails_the_task() -> None:
    decides = Tolerance(LETTERS, TaskId("files", 2))
    decision = decides.on_dead_letter_failed(ValueError("TOPIC_AUTHORIZATION_FAILED"))
    assert str(decision.error) == (
        "a dead letter could not be written to dlq: TOPIC_AUTHORIZATION_FAILED"
    )
    assert decides.counts.deadletterqueue_produce_failures == 1


def test_x_33_a_dead_letter_names_the_topic_that_was_read() -> None:
    props = {
        **PLAIN_JSON,
        "transforms": "route,cast",
        "transforms.route.type": "transforms.regex_router:RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "new-$1",
        "transforms.cast.type": "transforms.cast:CastValue",
        "transforms.cast.spec": "int8",
    }
    record = consumed(b'"many"')
    (outcome,) = SinkPipeline(props, {}, find).apply([record])
    assert isinstance(outcome, Failed)
    letter = on(EXPLAINED, outcome, record).dead_letter
    headers = dict(letter.headers)
    assert headers["__connect.errors.topic"] == b"orders"
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.class.name"].endswith(b"cast.CastValue")


def test_x_34_a_retry_waits_longer_each_time_within_its_timeout() -> None:
    decides = tolerance(errors_retry_timeout="2000")
    asked = [(1, 0), (2, 300), (3, 900), (4, 1500), (5, 2000)]
    waits = [
        decides.on_failure(failed(Retry("later")), consumed(), Tries(n, 1_000), 1_000 + since)
        for n, since in asked
    ]
    assert waits[:4] == [RetryAfter(300), RetryAfter(600), RetryAfter(1100), RetryAfter(500)]
    assert isinstance(waits[4], FailTask)
    assert (decides.counts.total_retries, decides.counts.total_record_failures) == (4, 5)


def test_x_34_without_end_a_retry_waits_at_most_the_longest_wait() -> None:
    decides = tolerance(errors_retry_timeout="-1", errors_retry_delay_max_ms="1000")
    late = Tries(10**6, 0)
    error = failed(Retry("later"), Stage.TRANSFORMATION)
    assert decides.on_failure(error, consumed(), late, 10**12) == RetryAfter(1000)
    asked = failed(Retry("later", after_ms=7), Stage.TRANSFORMATION)
    assert decides.on_failure(asked, consumed(), late, 10**12) == RetryAfter(7)


@pytest.mark.parametrize(
    ("stage", "tolerated"),
    [(stage, stage is not Stage.TASK_POLL) for stage in Stage],
)
def test_each_stage_but_poll_is_tolerated(stage: Stage, tolerated: bool) -> None:
    decision = on(ALL, failed(stage=stage), consumed())
    assert isinstance(decision, Skip if tolerated else FailTask)


def test_a_reported_record_and_other_errors_are_never_tried_again() -> None:
    props = {**ALL, "errors.retry.timeout": "-1"}
    assert isinstance(on(props, failed(Retry("x"), Stage.TASK_PUT), consumed()), Skip)
    assert isinstance(on(props, failed(), consumed()), Skip)


def test_the_log_tells_the_place_only_if_it_may() -> None:
    record: ConsumerRecord[bytes, bytes] = consumed(b"secret", offset=4)
    log = {**ALL, "errors.log.enable": "true"}
    line = on(log, failed(), record).log
    assert line == (
        "Error encountered in task files-2. Executing stage 'VALUE_CONVERTER' with class"
        " 'm.Converter': builtins.ValueError: no number"
    )
    places = {**log, "errors.log.include.messages": "true"}
    assert on(places, failed(), record).log == line + (
        ", where the consumed record is topic='orders', partition=1, offset=4, timestamp=5,"
        " timestampType=CREATE_TIME"
    )
    assert on(places, failed(), source("v")).log == line + (
        ", where the source record is from {'f': 'a'} at {'p': 1} for topic 'orders'"
    )


def test_settings_are_checked() -> None:
    with pytest.raises(BadConfig, match="none, all"):
        tolerance(errors_tolerance="some")
