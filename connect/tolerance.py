"""Decisions on records that could not be processed: tried again, left out, or the task fails.

Pure: whoever asks carries the answer out. Keys, stages, waits and the headers of dead letters are
those of Kafka's Connect (KIP-298, KIP-610; RetryWithToleranceOperator, DeadLetterQueueReporter).
With `errors.tolerance=none` nothing is left out, and so no dead letter is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from traceback import format_exception
from typing import Any, NamedTuple

from ..client.consumer.retry_headers import MESSAGE_BYTES, STACKTRACE_BYTES
from ..client.records import ConsumerRecord
from ..protocol.records.record_batch import Headers
from ..runtime.errors import MinikafkaError
from .api import Retry
from .common_config import SINK_CONFIG
from .config_def import INT64_MAX, ConfigDef
from .records import SourceRecord
from .states import TaskId

Consumed = ConsumerRecord[bytes, bytes]

FIRST_DELAY_MS = 300
"""The first wait before a retry; each later one is twice as long, up to the longest."""
PREFIX = "__connect.errors."

KEYS = ConfigDef(key for name, key in SINK_CONFIG.keys.items() if name.startswith("errors."))


class Stage(Enum):
    """The step at which a record could not be processed."""

    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"
    """A sink task has reported the record (`context.report`)."""


class Failed(NamedTuple):
    """The failure of one record."""

    stage: Stage
    error: Exception
    plugin: str
    """The class that raised the error."""


class Tries(NamedTuple):
    """How often a record was tried and since when; the first time counts."""

    attempts: int
    since_ms: int
    """When it failed first, on the clock of `now_ms`."""


class DeadLetter(NamedTuple):
    """A record for the topic of dead letters, with the bytes that were consumed."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """Process the record once more after this time."""

    after_ms: int


@dataclass(frozen=True, slots=True)
class Skip:
    """Leave the record out. Offsets behind it are committed once the dead letter is written."""

    dead_letter: DeadLetter | None
    log: str | None
    """A line for the log, if errors are logged."""


@dataclass(frozen=True, slots=True)
class FailTask:
    """Fail the task with this error; nothing of this record or behind it is committed."""

    error: Exception
    log: str | None


class ToleranceExceeded(MinikafkaError):
    """A record could not be processed, and `errors.tolerance` allows no record to be left out."""


@dataclass(slots=True)
class ErrorCounts:
    """Counts since the start of the task, under the names of Kafka's task-error-metrics."""

    total_record_failures: int = 0
    """Failed tries, those before a retry among them."""
    total_record_errors: int = 0
    """Records that could not be processed in the end."""
    total_records_skipped: int = 0
    total_retries: int = 0
    total_errors_logged: int = 0
    deadletterqueue_produce_requests: int = 0
    deadletterqueue_produce_failures: int = 0
    last_error_timestamp: int = 0
    """Milliseconds since the epoch; 0: there was none."""


class Tolerance:
    """Decides for one task. `counts` are its metrics."""

    def __init__(self, props: Mapping[str, str], task: TaskId) -> None:
        """Take the settings `errors.*`. Raise BadConfig if one is wrong."""
        settings = KEYS.parse(props)
        self._task = task
        self._tolerant = settings["errors.tolerance"] == "all"
        self._retry_ms: int = settings["errors.retry.timeout"]
        self._longest_ms: int = settings["errors.retry.delay.max.ms"]
        if self._longest_ms <= 0:
            self._longest_ms = INT64_MAX
        self._logs: bool = settings["errors.log.enable"]
        self._logs_places: bool = settings["errors.log.include.messages"]
        self._explains: bool = settings["errors.deadletterqueue.context.headers.enable"]
        self.dead_letter_topic: str = settings["errors.deadletterqueue.topic.name"]
        self.counts = ErrorCounts()

    def on_failure(
        self, failed: Failed, record: Consumed | SourceRecord, tries: Tries, now_ms: int
    ) -> RetryAfter | Skip | FailTask:
        """Decide on a record after a failure; `now_ms` is wall time in milliseconds.

        Only an error that is a `Retry` is tried again, within errors.retry.timeout. A record that
        a sink task has reported is never tried again.
        """
        counts = self.counts
        counts.total_record_failures += 1
        if isinstance(failed.error, Retry) and failed.stage is not Stage.TASK_PUT:
            wait = self._wait(failed.error, tries, now_ms)
            if wait is not None:
                counts.total_retries += 1
                return RetryAfter(wait)
        counts.total_record_errors += 1
        counts.last_error_timestamp = now_ms
        log = self._line(failed, record) if self._logs else None
        counts.total_errors_logged += log is not None
        if not self._tolerant or failed.stage is Stage.TASK_POLL:
            return FailTask(_exceeded(failed), log)
        counts.total_records_skipped += 1
        return Skip(self._dead_letter(failed, record), log)

    def on_dead_letter_failed(self, error: Exception) -> FailTask:
        """Decide once a dead letter could not be written: the task fails, its offsets stay."""
        self.counts.deadletterqueue_produce_failures += 1
        failure = MinikafkaError(
            f"a dead letter could not be written to {self.dead_letter_topic}: {error}"
        )
        failure.__cause__ = error
        return FailTask(failure, None)

    def _wait(self, error: Retry, tries: Tries, now_ms: int) -> int | None:
        # Without a bound on the exponent, the wait of the thousandth try is a very long number.
        delay = min(FIRST_DELAY_MS << min(tries.attempts - 1, 32), self._longest_ms)
        if error.after_ms is not None:
            delay = error.after_ms
        if self._retry_ms < 0:
            return delay
        left = tries.since_ms + self._retry_ms - now_ms
        return min(delay, left) if left > 0 else None

    def _dead_letter(self, failed: Failed, record: Consumed | SourceRecord) -> DeadLetter | None:
        if not self.dead_letter_topic or isinstance(record, SourceRecord):
            return None
        self.counts.deadletterqueue_produce_requests += 1
        return DeadLetter(
            self.dead_letter_topic,
            record.key,
            record.value,
            self._headers(failed, record) if self._explains else record.headers,
            record.timestamp_ms if record.timestamp_ms >= 0 else None,
        )

    def _headers(self, failed: Failed, record: Consumed) -> Headers:
        error = failed.error
        told = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "connector.name": self._task.connector,
            "task.id": str(self._task.task),
            "stage": failed.stage.value,
            "class.name": failed.plugin,
            "exception.class.name": name_of(type(error)),
            "exception.message": str(error),
            "exception.stacktrace": "".join(format_exception(error)),
        }
        given = {key for key, _ in record.headers}  # a letter that was consumed keeps its story
        added = [(PREFIX + key, _cut(key, text)) for key, text in told.items()]
        return [*record.headers, *(header for header in added if header[0] not in given)]

    def _line(self, failed: Failed, record: Consumed | SourceRecord) -> str:
        error = failed.error
        line = (
            f"Error encountered in task {self._task}. Executing stage '{failed.stage.value}' with"
            f" class '{failed.plugin}': {name_of(type(error))}: {error}"
        )
        if not self._logs_places:
            return line
        if isinstance(record, SourceRecord):
            return (
                f"{line}, where the source record is from {dict(record.source_partition)}"
                f" at {dict(record.source_offset)} for topic '{record.topic}'"
            )
        return (
            f"{line}, where the consumed record is topic='{record.topic}',"
            f" partition={record.partition}, offset={record.offset},"
            f" timestamp={record.timestamp_ms}, timestampType={record.timestamp_type.name}"
        )


def name_of(cls: type[Any]) -> str:
    """Return the full name of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _exceeded(failed: Failed) -> ToleranceExceeded:
    error = ToleranceExceeded(
        f"Tolerance exceeded in error handler: stage {failed.stage.value}, {failed.plugin}:"
        f" {failed.error}"
    )
    error.__cause__ = failed.error
    return error


def _cut(key: str, text: str) -> bytes:
    """Return the text in UTF-8, a long message without its end, a long trace without its start."""
    data = text.encode("utf-8", "replace")
    if key == "exception.stacktrace":
        data = data[-STACKTRACE_BYTES:]
    elif key == "exception.message":
        data = data[:MESSAGE_BYTES]
    return data.decode("utf-8", "ignore").encode()
