"""The ledger: exactly once on a cluster without commit groups, such as any Apache Kafka.

The decision to commit a batch is a record in a compacted topic. The record is written first; then
the batch's transactions are committed, one after the other. The next task or driver finishes a
decision that it finds before it writes anything. This is exact unless an outage between decision
and commit outlasts the transaction timeout; such a failure is reported as an error. This module
owns the ledger's topic and the order of these steps.
"""

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from ..client.admin.topic_types import NewTopic
from ..client.admin.transaction_types import TransactionDescription
from ..client.config import ConsumerConfig
from ..client.errors import AdminError, ClientError
from ..client.group_types import PreparedTransaction
from ..client.sync_consumer import Consumer
from ..client.sync_producer import Producer
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.types import TopicPartition
from .sink_clients import ABORT_MS, COMMIT_MS, ExactlyOnceError, SinkClients, out_of_the_past
from .worker_clients import known_to

TOPIC: Final = "spark-sink-ledger"
RUNS_KEPT: Final = 16
DECISION_TIMEOUT_MS: Final = 10_000
"""The transaction timeout of ledger writes: a driver that dies blocks others for no longer."""
CONFIGS: Final = {
    "cleanup.policy": "compact,delete",
    # Each sink writes a record with each batch, so an old record belongs to a sink that is gone.
    "retention.ms": str(30 * 24 * 3600 * 1000),
    "segment.ms": "600000",
}
FORGOTTEN: Final = (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
"""The errors for a transactional id that the coordinator does not know, or no longer knows."""
_PARTITION: Final = TopicPartition(TOPIC, 0)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """The newest decision about one group."""

    runs: tuple[str, ...] = ()
    """The runs of the group; the present run is the last."""
    batch_id: int = -1
    transactions: tuple[PreparedTransaction, ...] = ()
    """Transactions to commit, unless `is_done`."""
    is_done: bool = True

    def to_json(self) -> bytes:
        """Return the value of the entry's record."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read the value of a record."""
        found: dict[str, Any] = json.loads(text)
        return cls(
            tuple(found["runs"]),
            found["batch_id"],
            tuple(PreparedTransaction(*one) for one in found["transactions"]),
            found["is_done"],
        )

    def taken_over(self, group: str, run: str) -> Self:
        """Return the entry with `run` as the present run.

        Raise ExactlyOnceError if a newer run has replaced `run`.
        """
        if run in self.runs[:-1]:
            raise ExactlyOnceError(f"{group}, run {run}: a newer run has taken over")
        runs = self.runs if run in self.runs else (*self.runs, run)[-RUNS_KEPT:]
        return replace(self, runs=runs)


class Ledger:
    """The ledger of one cluster, as tasks and drivers use it."""

    def __init__(self, clients: SinkClients) -> None:
        self._clients = clients
        self._admin = clients.admin()

    def settled(self, group: str, run: str) -> int:
        """Finish a batch that is decided but not done, and return the number of the newest batch.

        Tasks call this before they write, also several at the same time. Raises ExactlyOnceError if
        a newer run has replaced this one, or if a transaction of the batch can no longer be
        committed.
        """
        if not self._has_topic():
            return Entry().batch_id
        entry = self._read(group).taken_over(group, run)
        while not entry.is_done:
            try:
                self._finish(group, entry)
                break
            except ExactlyOnceError:
                # Another task may have finished the batch, and the ledger may be ahead by now.
                again = self._read(group).taken_over(group, run)
                if again == entry:
                    raise
                entry = again
        return entry.batch_id

    def commit(
        self,
        group: str,
        run: str,
        batch_id: int,
        transactions: Sequence[PreparedTransaction],
        settled: int = -1,
    ) -> bool:
        """Commit a batch; return False if it is committed already.

        May be repeated until a later batch is committed. Raises ExactlyOnceError for an older
        batch, for a run that a newer one replaced, and if a transaction was ended by somebody else.
        `settled` is the newest batch that the tasks knew of before they wrote: its transactions are
        committed, and their ids may be in use again.
        """
        self._make_topic()
        with self._writing(group) as writer:
            # Earlier drivers can no longer write: the entry read now is final.
            found = self._read(group)
            entry = found.taken_over(group, run)
            if not entry.is_done:
                if entry.batch_id > settled:
                    self._finish(group, entry)
                entry = replace(entry, is_done=True)
            if entry.runs != found.runs:
                self._abort_orphans(group, run)
            if batch_id <= entry.batch_id:
                _write(writer, group, entry)
                others = [one for one in transactions if one not in entry.transactions]
                self._clients.end_all(others, commit=False, within_ms=ABORT_MS)
                if batch_id < entry.batch_id:
                    raise out_of_the_past(group, batch_id, entry.batch_id)
                return False
            self._check_open(f"batch {batch_id} of {group}", transactions)
            entry = Entry(entry.runs, batch_id, tuple(transactions), is_done=False)
            _write(writer, group, entry)
            self._finish(group, entry)
            _write(writer, group, replace(entry, is_done=True))
        return True

    def _has_topic(self) -> bool:
        try:
            self._admin.describe_topics([TOPIC])
        except AdminError as error:
            if error.errors[TOPIC].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return False
            raise
        return True

    def _make_topic(self) -> None:
        if self._has_topic():
            return
        # Set here, because a cluster's default is often a single replica.
        copies = min(3, len(self._admin.describe_cluster().brokers))
        configs = {**CONFIGS, "min.insync.replicas": str(max(1, copies - 1))}
        try:
            self._admin.create_topics([NewTopic(TOPIC, 1, copies, configs=configs)])
        except AdminError as error:
            if error.errors[TOPIC].code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    @contextmanager
    def _writing(self, group: str) -> Iterator[Producer]:
        settings = {
            **self._clients.settings,
            "transactional.id": f"{group}/ledger",
            "transaction.timeout.ms": str(DECISION_TIMEOUT_MS),
        }
        with Producer.from_config(settings) as producer:
            yield producer

    def _read(self, group: str) -> Entry:
        settings = known_to(ConsumerConfig, self._clients.settings)
        own = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        # Read to the very end, past entries that other groups are just writing: an entry of this
        # group may be behind them.
        end = self._admin.list_offsets({_PARTITION: -1})[_PARTITION].offset
        found = Entry()
        deadline = time.monotonic() + COMMIT_MS / 1000
        with Consumer.from_config({**settings, **own}) as consumer:
            consumer.assign([_PARTITION])
            while consumer.position(_PARTITION) < end:
                for record in consumer.poll(1000):
                    if record.key == group.encode():
                        # A tombstone means that somebody wants the group forgotten.
                        text = record.value
                        found = Entry() if text is None else Entry.from_json(text)
                if time.monotonic() > deadline:
                    raise ExactlyOnceError(f"{TOPIC} could not be read up to offset {end}")
        return found

    def _check_open(self, batch: str, transactions: Sequence[PreparedTransaction]) -> None:
        """Raise ExactlyOnceError unless every transaction is open, so that it can be committed."""
        names = [one.transactional_id for one in transactions]
        try:
            described = self._admin.describe_transactions(names)
        except AdminError as error:
            raise ExactlyOnceError(
                f"{batch} is not committed: its transactions could not be looked at ({error}); "
                "nothing of the batch is visible, run it again"
            ) from error
        for one in transactions:
            if not _is_open(described[one.transactional_id], one):
                raise ExactlyOnceError(
                    f"{batch} is not committed: transaction {one.transactional_id} was ended "
                    "before; nothing of the batch is visible, run it again"
                )

    def _finish(self, group: str, entry: Entry) -> None:
        failed = self._clients.end_all(entry.transactions, commit=True, within_ms=COMMIT_MS)
        if failed:
            # A refusal is reported before a timeout.
            refused = {one: why for one, why in failed.items() if isinstance(why, ApiError)}
            raise ExactlyOnceError(_unfinished(group, entry, refused or failed))

    def _abort_orphans(self, group: str, run: str) -> None:
        """Abort transactions that earlier runs left open, because readers wait for them."""
        listed = self._admin.list_transactions(states=["Ongoing"])
        orphans = [
            one.transactional_id
            for one in listed
            if one.transactional_id.startswith(f"{group}/")
            and not one.transactional_id.startswith((f"{group}/{run}/", f"{group}/ledger"))
        ]
        if not orphans:
            return
        try:
            self._admin.fence_producers(orphans)
        except AdminError as error:
            # Their timeout ends the transactions; until then they only delay readers, and no row
            # depends on them.
            log.warning("%s: left by earlier runs and not aborted: %s", group, error)


def _is_open(found: TransactionDescription, wanted: PreparedTransaction) -> bool:
    identity = (found.producer_id, found.producer_epoch)
    return found.state == "Ongoing" and identity == (wanted.producer_id, wanted.epoch)


def _unfinished(
    group: str, entry: Entry, failed: Mapping[PreparedTransaction, ApiError | ClientError]
) -> str:
    """Return the error text: which transactions are not committed, and what to do."""
    one, error = next(iter(failed.items()))
    which = f"transaction {one.transactional_id}"
    if len(failed) > 1:
        which += f" and {len(failed) - 1} more"
    start = f"batch {entry.batch_id} of {group} is decided, but {which} "
    if not isinstance(error, ApiError):
        return (
            f"{start}could not be committed yet ({error}). Start again: this is done first then, "
            "and nothing is lost unless kafka.transaction.timeout.ms is over before"
        )
    done = replace(entry, transactions=(), is_done=True).to_json().decode()
    remedy = (
        f"the batch counts as committed and goes on once {TOPIC}, partition 0, has a record with "
        f"key {group} and value {done}"
    )
    if error.code in FORGOTTEN:
        return (
            f"{start}is not known any more ({error}): committed and then forgotten, or timed out "
            "and its rows lost, which cannot be told apart. Look in the topic as a reader of "
            f"committed records, and write what is missing; {remedy}"
        )
    return (
        f"{start}was ended before it could be committed ({error}): its rows are lost, those of "
        f"the batch's other transactions are there. Write the lost ones again; {remedy}"
    )


def _write(writer: Producer, group: str, entry: Entry) -> None:
    with writer.transaction():
        writer.send(TOPIC, entry.to_json(), key=group.encode(), partition=0)
