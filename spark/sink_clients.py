"""The transactional clients of a sink in a Python worker: producers, an admin, generations.

Spark reuses its workers, so that a task finds the producer which the partition before it opened.
Owns clients and their settings; what is written and committed is decided in exactly_once.py.
One thread at a time, as in a worker.
"""

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from ..client.admin.sync_admin import Admin
from ..client.config import AdminConfig
from ..client.errors import (
    ClientClosed,
    ClientError,
    ProducerFenced,
    RequestTimedOut,
    TransactionError,
)
from ..client.group_types import CommitGroupState, PreparedTransaction
from ..client.sync_producer import Producer
from ..protocol.errors import ApiError
from ..runtime.errors import MinikafkaError
from .cluster import DEFAULTS, SINK
from .sink_options import TRANSACTION_TIMEOUT_MS
from .worker_clients import WorkerClients, known_to

MOST_PRODUCERS: Final = 16
MOST_RUNS: Final = 64
CLOSE_MS: Final = 5_000
COMMIT_MS: Final = 120_000
"""The time that a commit is tried while the cluster does not answer."""
ABORT_MS: Final = 5_000
"""The time that the driver tries to abort; the transaction timeout aborts in any case."""
TRIES_IN_TIME: Final = 4
"""One unanswered transaction may use up this part, 1 in so many, of the time given for all."""

T = TypeVar("T")
_all: "WorkerClients[tuple[tuple[str, str], ...], SinkClients]" = WorkerClients()


class ExactlyOnceError(MinikafkaError):
    """A batch that is not committed, or cannot be: says which, why, and what to do."""


def out_of_the_past(group: str, batch_id: int, recorded: int) -> ExactlyOnceError:
    """Make the error of a batch that is older than the newest recorded batch.

    A repeated commit whose answer was lost repeats the newest batch, and never an older one. Nobody
    can tell whether these rows were committed: to skip them could lose them.
    """
    return ExactlyOnceError(
        f"batch {batch_id} of {group} is not committed: batch {recorded} of it is recorded. Its "
        "checkpoint was rolled back or copied, or its numbers are given twice or not in their "
        f"order. Give it back the checkpoint that knows of batch {recorded}, or another sinkId, "
        f"under which all from batch {batch_id} on is written, also what was committed before"
    )


def sink_clients_for(settings: Mapping[str, str]) -> "SinkClients":
    """Find or make the clients for these settings; a forked process gets clients of its own."""
    return _all.get(tuple(sorted(settings.items())), lambda: SinkClients(settings))


class SinkClients:
    """The clients of one worker for one set of settings, opened on use."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = {
            **DEFAULTS,
            **SINK,
            "transaction.timeout.ms": str(TRANSACTION_TIMEOUT_MS),
            **settings,
        }
        self._admin: Admin | None = None
        self._producers: dict[str, Producer] = {}
        self._answers: dict[Hashable, Any] = {}

    def close(self) -> None:
        """Close the producers and the admin."""
        while self._producers:
            _closed(self._producers.popitem()[1])
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def admin(self) -> Admin:
        """Give the admin, which waits out what a cluster needs to find a new coordinator."""
        if self._admin is None:
            settings = known_to(AdminConfig, self.settings)
            self._admin = Admin.from_config({"default.api.timeout.ms": str(COMMIT_MS), **settings})
        return self._admin

    def end_all(
        self, transactions: Iterable[PreparedTransaction], *, commit: bool, within_ms: int
    ) -> dict[PreparedTransaction, ApiError | ClientError]:
        """End each transaction by itself, all in that time; return the failed ones with errors."""
        deadline = time.monotonic() + within_ms / 1000
        failed: dict[PreparedTransaction, ApiError | ClientError] = {}
        for one in transactions:
            left_ms = int((deadline - time.monotonic()) * 1000)
            if left_ms <= 0:
                failed[one] = RequestTimedOut(f"{within_ms} ms were over before its turn")
                continue
            timeout_ms = min(left_ms, within_ms // TRIES_IN_TIME)
            try:
                self.admin().end_prepared(one, commit=commit, timeout_ms=timeout_ms)
            except (ApiError, ClientError) as error:
                failed[one] = error
        return failed

    def state_of(self, group: str, run: str) -> CommitGroupState:
        """Begin a run of a group, or look up what was answered when this worker began it.

        What is remembered may be old: the generation is that of the run, and never changes; the
        recorded batch only grows. Raises as `Admin.init_commit_group`.
        """
        return self.once((group, run), lambda: self.admin().init_commit_group(group, run))

    def once(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Ask once in this worker, and remember the newest answers."""
        if key not in self._answers:
            self._answers[key] = ask()
            if len(self._answers) > MOST_RUNS:
                del self._answers[next(iter(self._answers))]
        answer: T = self._answers[key]
        return answer

    def begin(self, transactional_id: str) -> Producer:
        """Begin a transaction, which fences and aborts whatever this id has open."""
        known = self._producers.pop(transactional_id, None)
        if known is not None:
            try:
                known.begin_transaction()
            except (TransactionError, ProducerFenced, ClientClosed):
                # The producer was lost since its last transaction; a fresh one can take its place.
                _closed(known)
                known = None
            except BaseException:
                _closed(known)
                raise
        if known is None:
            settings = {**SINK, **self.settings, "transactional.id": transactional_id}
            known = Producer.from_config(settings)
            try:
                known.begin_transaction()
            except BaseException:
                _closed(known)
                raise
        self._producers[transactional_id] = known
        if len(self._producers) > MOST_PRODUCERS:
            _closed(self._producers.pop(next(iter(self._producers))))
        return known

    def drop(self, transactional_id: str) -> None:
        """Abort what this id has open here, as far as the cluster can be reached, and forget it."""
        producer = self._producers.pop(transactional_id, None)
        if producer is not None:
            _closed(producer)


def _closed(producer: Producer) -> None:
    with suppress(ClientError, TimeoutError):
        producer.close(CLOSE_MS)
