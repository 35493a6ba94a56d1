"""The base classes of the errors that are raised on purpose.

`ApiError` and `ProtocolError` are derived in protocol/, `ClientError` in client/. An
`InvariantViolation` is a bug of minikafka, and it ends the process.
"""

import re
from typing import Final

SECRET_WORDS: Final = "pas+w|pwd|secret|jaas|credential"
"""A pattern of words in the keys of secrets, also of misspelt ones."""

_SECRET: Final = re.compile(SECRET_WORDS + r"|keystore\.key$")


class MinikafkaError(Exception):
    """The base class of errors that minikafka raises on purpose."""


class ConfigError(MinikafkaError):
    """A setting cannot be used; the text names the key, the value and the reason in one line.

    The value of a key that looks like that of a secret is forgotten, so that nobody can print it.
    """

    def __init__(self, key: str, value: object, why: str) -> None:
        if _SECRET.search(key.lower()):
            value = None
        super().__init__(key, value, why)
        self.key = key
        self.value = value
        self.why = why

    def __str__(self) -> str:
        shown = self.key if self.value is None else f"{self.key}={self.value}"
        return f"{shown}: {self.why}"


class StorageError(MinikafkaError):
    """A file could not be read or written correctly."""


class CorruptLog(StorageError):
    """Bytes on disk differ from those that were written."""

    def __init__(self, path: str, position: int, why: str) -> None:
        super().__init__(path, position, why)
        self.path = path
        self.position = position
        self.why = why

    def __str__(self) -> str:
        return f"{self.path} at byte {self.position}: {self.why}"


class LogDirectoryFailed(StorageError):
    """I/O failed under this directory: all of it is offline until the process restarts."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class WorkerLost(MinikafkaError):
    """The worker process ended twice during a job, or had too little memory for it."""


class InvariantViolation(AssertionError):
    """A bug of minikafka; it ends the process, which must not continue in an impossible state.

    Code that catches all errors must raise this one again.
    """
