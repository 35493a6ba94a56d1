"""Failures counted until the task is to fail; reports of single records, waited for."""

from typing import Any

from ...runtime.errors import MinikafkaError
from ..api import ConnectError, Retry, SinkContext
from ..records import SinkRecord


class Patience:
    """Counts failures in a row."""

    def __init__(self, retries: int, after_ms: int) -> None:
        self._retries, self._after_ms = retries, after_ms
        self._failures = 0

    def calm(self) -> None:
        """Begin to count anew, since something succeeded."""
        self._failures = 0

    def after(self, what: str) -> MinikafkaError:
        """Return what to raise after one more failure: Retry, or ConnectError when it is enough."""
        self._failures += 1
        if self._failures <= self._retries:
            return Retry(what, self._after_ms)
        return ConnectError(f"{what}; tried {self._failures} times")


def report(context: SinkContext, record: SinkRecord, error: Exception) -> None:
    """Hand a record to the dead letters, and wait until it is there; for sync tasks.

    Raise `error` where nothing is tolerated, TimeoutError after a minute.
    """
    outcome: Any = context.report(record, error)
    outcome.result()
