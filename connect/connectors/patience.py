"""Patience with a system that fails: how often in a row a batch is tried before the task fails."""

from ...runtime.errors import MinikafkaError
from ..api import ConnectError, Retry


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
