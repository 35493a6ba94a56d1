"""The roots of every error raised on purpose.

`ApiError` and `ProtocolError` grow from here in protocol/, `ClientError` in client/. An
`InvariantViolation` is our own bug: it ends the process and is never caught.
"""


class MinikafkaError(Exception):
    """Anything that minikafka raises on purpose."""


class ConfigError(MinikafkaError):
    """A setting that cannot be used: names the key, the value and the reason in one line."""

    def __init__(self, key: str, value: object, why: str) -> None:
        super().__init__(key, value, why)
        self.key = key
        self.value = value
        self.why = why

    def __str__(self) -> str:
        shown = self.key if self.value is None else f"{self.key}={self.value}"
        return f"{shown}: {self.why}"


class StorageError(MinikafkaError):
    """A file could not be read or written as it should."""


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
    """The worker process ended under a job, twice, or had too little memory for it."""


class InvariantViolation(AssertionError):
    """Our own bug. Never caught: a process in an impossible state must not go on."""
