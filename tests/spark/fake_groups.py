"""A coordinator of commit groups in memory, with the clients that `SinkClients` opens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from minikafka.client.errors import ClientError, ProducerFenced, UnsupportedVersion
from minikafka.client.group_types import CommitGroupState, PreparedTransaction
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.spark import exactly_once, sink_clients
from minikafka.spark.rows import RowError
from minikafka.spark.worker_clients import WorkerClients


@dataclass
class Open:
    producer_id: int
    epoch: int
    values: list[str] = field(default_factory=list)
    is_open: bool = True


@dataclass
class Group:
    runs: list[str] = field(default_factory=list)
    batch_id: int = -1


@dataclass
class FakeGroups:
    """What the coordinator knows; `committed` is what read_committed sees."""

    committed: list[str] = field(default_factory=list)
    ids: dict[str, Open] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    producers: list["FakeTransactional"] = field(default_factory=list)
    lacks_commit_groups: bool = False
    inits: int = 0
    lost_answers: list[ClientError] = field(default_factory=list)
    """Raised by the next commits, one each, after they were carried out."""

    @property
    def held_back(self) -> list[str]:
        """Transactions that readers wait for."""
        return [name for name, one in self.ids.items() if one.is_open]

    def expire(self) -> None:
        """Let every transaction time out."""
        for one in self.ids.values():
            one.is_open, one.epoch = False, one.epoch + 1

    def init(self, name: str) -> Open:
        known = self.ids.get(name)
        epoch = 0 if known is None else known.epoch + 1
        self.ids[name] = Open(len(self.ids), epoch, is_open=False)
        return self.ids[name]

    # -- the admin

    def init_commit_group(self, group: str, run: str) -> CommitGroupState:
        self.inits += 1
        if self.lacks_commit_groups:
            raise UnsupportedVersion("INIT_COMMIT_GROUP: the broker does not know it")
        known = self.groups.setdefault(group, Group())
        if run not in known.runs:
            known.runs.append(run)
        if known.runs[-1] != run:
            raise ApiError(ErrorCode.PRODUCER_FENCED, run)
        return CommitGroupState(len(known.runs) - 1, known.batch_id)

    def commit_group(
        self,
        group: str,
        generation: int,
        batch_id: int,
        transactions: Sequence[PreparedTransaction],
    ) -> bool:
        known = self.groups.get(group)
        if known is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, group)
        if generation != len(known.runs) - 1:
            raise ApiError(ErrorCode.PRODUCER_FENCED, group)
        is_new = batch_id > known.batch_id
        named = [self.ids[one.transactional_id] for one in transactions]
        if is_new:
            for one, asked in zip(named, transactions, strict=True):
                assert asked.transactional_id.startswith(f"{group}/")
                if not one.is_open or (one.producer_id, one.epoch) != asked[1:]:
                    raise ApiError(ErrorCode.INVALID_TXN_STATE, asked.transactional_id)
            self.committed += [value for one in named for value in one.values]
            known.batch_id = batch_id
        for name, one in self.ids.items():
            if name.startswith(f"{group}/"):
                one.is_open = False
        if self.lost_answers:
            raise self.lost_answers.pop()
        return is_new

    def end_prepared(
        self, transaction: PreparedTransaction, *, commit: bool, timeout_ms: int | None = None
    ) -> None:
        known = self.ids[transaction.transactional_id]
        if not known.is_open or (known.producer_id, known.epoch) != transaction[1:]:
            raise ApiError(ErrorCode.INVALID_TXN_STATE, transaction.transactional_id)
        known.is_open = False
        if commit:
            self.committed += known.values

    def close(self) -> None:
        pass


@dataclass
class FakeTransactional:
    """A transactional producer."""

    groups: FakeGroups
    name: str
    mine: Open
    settings: Mapping[str, str]
    is_handed_over: bool = False
    is_closed: bool = False

    def begin_transaction(self) -> None:
        if self.is_handed_over:
            self.mine = self.groups.init(self.name)
            self.is_handed_over = False
        if self.groups.ids[self.name] is not self.mine:
            raise ProducerFenced(None, ApiError(ErrorCode.PRODUCER_FENCED))

    def send(self, values: list[str]) -> None:
        self.mine.is_open = True
        self.mine.values += values

    def prepare_transaction(self) -> PreparedTransaction | None:
        self.is_handed_over = True
        if not self.mine.is_open:
            return None
        return PreparedTransaction(self.name, self.mine.producer_id, self.mine.epoch)

    def close(self, timeout_ms: int | None = None) -> None:
        self.is_closed = True
        if not self.is_handed_over:
            self.mine.is_open = False


class FakeRows:
    """Hands the values over; None is refused."""

    def __init__(
        self, producer: FakeTransactional, topic: str | None, dead_letters: object
    ) -> None:
        self._producer = producer

    def write(self, batch: pa.RecordBatch, first_row: int) -> None:
        values = batch.column("value").to_pylist()
        if None in values:
            raise RowError(first_row + values.index(None), "no value")
        self._producer.send(values)

    def finish(self) -> None:
        pass


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> FakeGroups:
    fake = FakeGroups()

    class OneProducer:
        @staticmethod
        def from_config(settings: Mapping[str, str]) -> FakeTransactional:
            name = settings["transactional.id"]
            made = FakeTransactional(fake, name, fake.init(name), settings)
            fake.producers.append(made)
            return made

    class OneAdmin:
        @staticmethod
        def from_config(settings: Mapping[str, str]) -> Any:
            return fake

    monkeypatch.setattr(sink_clients, "Producer", OneProducer)
    monkeypatch.setattr(sink_clients, "Admin", OneAdmin)
    monkeypatch.setattr(sink_clients, "_all", WorkerClients())
    monkeypatch.setattr(exactly_once, "RowWriter", FakeRows)
    return fake
