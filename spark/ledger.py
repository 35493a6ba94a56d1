"""The ledger: exactly once where the cluster cannot commit a group of transactions (any Kafka).

What is decided about a batch is a record of a compacted topic, written before any transaction of
the batch is committed, one after the other; whoever comes next finishes what it says. Exact unless
an outage between the two outlasts the transaction timeout, which is then an error, never silent.
Owns the ledger's topic and the order of these steps.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

from ..client.admin_types import NewTopic
from ..client.commit_group_types import PreparedTransaction
from ..client.config import ConsumerConfig
from ..client.errors import AdminError
from ..client.group_admin_types import TransactionDescription
from ..client.sync_consumer import Consumer
from ..client.sync_producer import Producer
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.types import TopicPartition
from ..runtime.config import settings_of
from .sink_clients import COMMIT_MS, ExactlyOnceError, SinkClients, out_of_the_past

TOPIC: Final = "spark-sink-ledger"
RUNS_KEPT: Final = 16
DECISION_TIMEOUT_MS: Final = 10_000
"""A driver that dies while it writes to the ledger holds up others for no longer."""
CONFIGS: Final = {
    "cleanup.policy": "compact,delete",
    # Each sink writes anew with each batch: what is old is of a sink that is gone.
    "retention.ms": str(30 * 24 * 3600 * 1000),
    "segment.ms": "600000",
}
_PARTITION: Final = TopicPartition(TOPIC, 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """The newest of what is decided for one group."""

    runs: tuple[str, ...] = ()
    """The present one last."""
    batch_id: int = -1
    transactions: tuple[PreparedTransaction, ...] = ()
    """To be committed, unless `is_done`."""
    is_done: bool = True

    def to_json(self) -> bytes:
        """Give the value of its record."""
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
        """The same with `run` as the present one; refused if another has followed it."""
        if run in self.runs[:-1]:
            raise ExactlyOnceError(f"{group}, run {run}: a newer run has taken over")
        runs = self.runs if run in self.runs else (*self.runs, run)[-RUNS_KEPT:]
        return replace(self, runs=runs)


class Ledger:
    """The ledger of one cluster, as a driver's worker uses it."""

    def __init__(self, clients: SinkClients) -> None:
        self._clients = clients
        self._admin = clients.admin()

    def commit(
        self, group: str, run: str, batch_id: int, transactions: Sequence[PreparedTransaction]
    ) -> bool:
        """Commit a batch; False if it is committed already.

        May be repeated until a later one is committed. ExactlyOnceError for an older batch, for a
        run that another one has followed, and where a transaction was ended by somebody else.
        """
        self._make_topic()
        with self._writing(group) as writer:
            # Drivers before this one can write no more: what is read now is the last word.
            found = self._read(group)
            entry = found.taken_over(group, run)
            if not entry.is_done:
                self._finish(group, entry)
                entry = replace(entry, is_done=True)
            if entry.runs != found.runs:
                self._abort_orphans(group, run)
            if batch_id <= entry.batch_id:
                _write(writer, group, entry)
                named = {one.transactional_id for one in entry.transactions}
                self._abort([o for o in transactions if o.transactional_id not in named])
                if batch_id < entry.batch_id:
                    raise out_of_the_past(group, batch_id, entry.batch_id)
                return False
            self._check_open(transactions)
            entry = Entry(entry.runs, batch_id, tuple(transactions), is_done=False)
            _write(writer, group, entry)
            self._finish(group, entry)
            _write(writer, group, replace(entry, is_done=True))
        return True

    def _make_topic(self) -> None:
        try:
            self._admin.describe_topics([TOPIC])
        except AdminError:
            try:
                # Not the cluster's own default, which is often a single copy.
                copies = min(3, len(self._admin.describe_cluster().brokers))
                configs = {**CONFIGS, "min.insync.replicas": str(max(1, copies - 1))}
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
        known = {row.key for row in settings_of(ConsumerConfig)}
        settings = {key: value for key, value in self._clients.settings.items() if key in known}
        own = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        # To the very end, also past what another group is just deciding: an entry of this one may
        # be behind that.
        end = self._admin.list_offsets({_PARTITION: -1})[_PARTITION].offset
        found = Entry()
        deadline = time.monotonic() + COMMIT_MS / 1000
        with Consumer.from_config({**settings, **own}) as consumer:
            consumer.assign([_PARTITION])
            while consumer.position(_PARTITION) < end:
                for record in consumer.poll(1000):
                    if record.key == group.encode() and record.value is not None:
                        found = Entry.from_json(record.value)
                if time.monotonic() > deadline:
                    raise ExactlyOnceError(f"{TOPIC} could not be read up to offset {end}")
        return found

    def _check_open(self, transactions: Sequence[PreparedTransaction]) -> None:
        """Decide nothing that cannot be carried out."""
        described = self._admin.describe_transactions([o.transactional_id for o in transactions])
        for one in transactions:
            if not _is_open(described[one.transactional_id], one):
                raise ExactlyOnceError(
                    f"transaction {one.transactional_id} was ended before its batch was committed; "
                    "nothing of the batch is visible, run it again"
                )

    def _finish(self, group: str, entry: Entry) -> None:
        for one in entry.transactions:
            try:
                self._admin.end_prepared(one, commit=True)
            except ApiError as error:
                raise ExactlyOnceError(
                    f"batch {entry.batch_id} of {group} was decided, but its transaction "
                    f"{one.transactional_id} was ended before it could be committed ({error}): its "
                    f"rows are lost. Write them again, then delete key {group} from {TOPIC}"
                ) from error

    def _abort_orphans(self, group: str, run: str) -> None:
        """End what earlier runs of the group left open: readers wait for it."""
        listed = self._admin.list_transactions(states=["Ongoing"])
        orphans = [
            one.transactional_id
            for one in listed
            if one.transactional_id.startswith(f"{group}/")
            and not one.transactional_id.startswith((f"{group}/{run}/", f"{group}/ledger"))
        ]
        if orphans:
            self._admin.fence_producers(orphans)

    def _abort(self, transactions: Sequence[PreparedTransaction]) -> None:
        for one in transactions:
            try:
                self._admin.end_prepared(one, commit=False)
            except ApiError:
                continue  # ended already


def _is_open(found: TransactionDescription, wanted: PreparedTransaction) -> bool:
    identity = (found.producer_id, found.producer_epoch)
    return found.state == "Ongoing" and identity == (wanted.producer_id, wanted.epoch)


def _write(writer: Producer, group: str, entry: Entry) -> None:
    with writer.transaction():
        writer.send(TOPIC, entry.to_json(), key=group.encode(), partition=0)
