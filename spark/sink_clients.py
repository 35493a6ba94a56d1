"""The transactional clients of a sink in a Python worker: producers and an admin client.

Spark reuses its workers, so a task finds the producer that an earlier task opened. This module owns
clients and their settings; exactly_once.py decides what is written and committed. Only one thread
at a time may use the clients; a worker has only one.
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
"""The time limit of a commit while the cluster does not answer."""
ABORT_MS: Final = 5_000
"""The time limit of an abort by the driver; the transaction timeout aborts in any case."""
TRIES_IN_TIME: Final = 4
"""One unanswered transaction may use up at most 1/`TRIES_IN_TIME` of the time for all."""

T = TypeVar("T")
_all: "WorkerClients[tuple[tuple[str, str], ...], SinkClients]" = WorkerClients()


class ExactlyOnceError(MinikafkaError):
    """A batch is not committed, or cannot be. The text says which, why, and what to do."""


def out_of_the_past(group: str, batch_id: int, recorded: int) -> ExactlyOnceError:
    """Return the error for a batch that is older than the newest committed batch.

    A commit that is repeated because its answer was lost is always of the newest batch. Nobody can
    tell whether the rows of this older batch were committed, and skipping them could lose them.
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
        """Return the admin client. Its calls wait until the cluster has found a new coordinator."""
        if self._admin is None:
            settings = known_to(AdminConfig, self.settings)
            self._admin = Admin.from_config({"default.api.timeout.ms": str(COMMIT_MS), **settings})
        return self._admin

    def end_all(
        self, transactions: Iterable[PreparedTransaction], *, commit: bool, within_ms: int
    ) -> dict[PreparedTransaction, ApiError | ClientError]:
        """End each transaction, all within a time limit; return the failed ones with errors."""
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
        """Begin a run of a group, or return the answer that this worker got when it began it.

        An answer may be old, but a run's generation never changes, and its newest committed batch
        can only have grown. Raises the errors of `Admin.init_commit_group`.
        """
        return self.once((group, run), lambda: self.admin().init_commit_group(group, run))

    def once(self, key: Hashable, ask: Callable[[], T]) -> T:
        """Call `ask` once per key in this worker, and keep the newest answers."""
        if key not in self._answers:
            self._answers[key] = ask()
            if len(self._answers) > MOST_RUNS:
                del self._answers[next(iter(self._answers))]
        answer: T = self._answers[key]
        return answer

    def begin(self, transactional_id: str) -> Producer:
        """Begin a transaction, which fences and aborts any that this id has open."""
        known = self._producers.pop(transactional_id, None)
        if known is not None:
            try:
                known.begin_transaction()
            except (TransactionError, ProducerFenced, ClientClosed):
                # The producer was lost after its last transaction; a new one can replace it.
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
        """Abort this id's open transaction, if the cluster answers, and close its producer."""
        producer = self._producers.pop(transactional_id, None)
        if producer is not None:
            _closed(producer)


def _closed(producer: Producer) -> None:
    with suppress(ClientError, TimeoutError):
        producer.close(CLOSE_MS)
