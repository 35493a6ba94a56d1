"""The table of a SQL sink's offsets, which is written in the transactions of its rows.

A row says up to where the rows of a partition are in the database, and the epoch of the task that
writes them. A task that opens a partition takes the next epoch. A transaction moves the row only if
it still has the epoch and the offset that the task knows: so one of an older task is refused.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc

from ...protocol.types import TopicPartition
from ..api import ConnectError

NAME = "minikafka_connect_offsets"
NOTHING = -1
"""The next offset of a partition of which nothing was written."""
_CLAIMS = 10
"""How often a claim is tried that meets another one."""


class Fenced(ConnectError):
    """A later task writes the partition."""


class OffsetTable:
    """The offsets of one connector."""

    def __init__(self, engine: sa.Engine, connector: str, schema: str | None) -> None:
        self._engine, self._connector = engine, connector
        self._table = sa.Table(
            NAME,
            sa.MetaData(),
            sa.Column("connector", sa.String(200), primary_key=True),
            sa.Column("topic", sa.String(249), primary_key=True),
            sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
            sa.Column("next_offset", sa.BigInteger, nullable=False),
            sa.Column("epoch", sa.BigInteger, nullable=False),
            schema=schema,
        )
        self._known: dict[TopicPartition, tuple[int, int]] = {}
        """The next offset and the epoch of each open partition."""

    def create(self) -> None:
        """Make the table where it is not yet."""
        try:
            self._table.create(self._engine, checkfirst=True)
        except exc.SQLAlchemyError:
            if not sa.inspect(self._engine).has_table(NAME, self._table.schema):
                raise  # and not made by another task at the same time

    def claim(self, partition: TopicPartition) -> int | None:
        """Take the next epoch; return the next offset, None if nothing was written yet."""
        for _ in range(_CLAIMS):
            try:
                with self._engine.begin() as connection:
                    claimed = self._claimed(connection, partition)
            except exc.IntegrityError:  # another task has inserted the row
                continue
            if claimed is not None:
                self._known[partition] = claimed
                return None if claimed[0] == NOTHING else claimed[0]
        raise ConnectError(f"{partition} is being opened by other tasks all the time")

    def _claimed(
        self, connection: sa.Connection, partition: TopicPartition
    ) -> tuple[int, int] | None:
        before = self._read(connection, partition)
        if before is None:
            row = {**self._key(partition), "next_offset": NOTHING, "epoch": 1}
            connection.execute(self._table.insert().values(row))
            return NOTHING, 1
        after = (before[0], before[1] + 1)
        return after if self._replace(connection, partition, before, after) else None

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were given back."""
        for each in partitions:
            self._known.pop(each, None)

    def next_offset(self, partition: TopicPartition) -> int:
        """Return the first offset that is not in the database, as this task knows it."""
        return self._known[partition][0]

    def move(self, connection: sa.Connection, offsets: Mapping[TopicPartition, int]) -> None:
        """Move the rows within the transaction of `connection`. Raise Fenced if a later task did.

        `moved` is called when the transaction is committed.
        """
        for partition, offset in sorted(offsets.items()):
            before = self._known[partition]
            if not self._replace(connection, partition, before, (offset, before[1])):
                raise self._refusal(connection, partition)

    def moved(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Take note of a committed transaction."""
        for partition, offset in offsets.items():
            self._known[partition] = (offset, self._known[partition][1])

    def look_again(self) -> None:
        """Read the open partitions' rows, since nobody knows whether the last commit succeeded.

        Raise Fenced if a later task has opened one.
        """
        with self._engine.connect() as connection:
            for partition, known in self._known.items():
                found = self._read(connection, partition)
                if found is None or found[1] != known[1]:
                    raise self._refusal(connection, partition)
                self._known[partition] = found

    def _refusal(self, connection: sa.Connection, partition: TopicPartition) -> Fenced:
        offset, epoch = self._known[partition]
        now = self._read(connection, partition)
        return Fenced(
            f"{partition.topic}-{partition.partition} is written by another task of connector "
            f"{self._connector}, or {NAME} was changed by hand: next_offset and epoch are "
            f"{now}, this task knows {(offset, epoch)}; nothing of the batch was written"
        )

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set next offsets, of a connector that is stopped; None forgets one."""
        self.create()
        with self._engine.begin() as connection:
            for partition, offset in offsets.items():
                key = self._key(partition)
                before = self._read(connection, partition)
                epoch = 0 if before is None else before[1]
                connection.execute(self._table.delete().where(*self._is(key)))
                row = {**key, "next_offset": NOTHING if offset is None else offset}
                connection.execute(self._table.insert().values({**row, "epoch": epoch + 1}))

    def _key(self, partition: TopicPartition) -> dict[str, Any]:
        return {
            "connector": self._connector,
            "topic": partition.topic,
            "part": partition.partition,
        }

    def _is(self, values: Mapping[str, Any]) -> list[sa.ColumnElement[bool]]:
        return [self._table.columns[name] == value for name, value in values.items()]

    def _read(self, connection: sa.Connection, partition: TopicPartition) -> tuple[int, int] | None:
        columns = self._table.columns
        found = connection.execute(
            sa.select(columns.next_offset, columns.epoch).where(*self._is(self._key(partition)))
        ).first()
        return None if found is None else (found[0], found[1])

    def _replace(
        self,
        connection: sa.Connection,
        partition: TopicPartition,
        before: tuple[int, int],
        after: tuple[int, int],
    ) -> bool:
        """Change a row that is as it was `before`; return False if it is not."""
        expected = {**self._key(partition), "next_offset": before[0], "epoch": before[1]}
        statement = self._table.update().where(*self._is(expected))
        done = connection.execute(statement.values(next_offset=after[0], epoch=after[1]))
        return done.rowcount == 1
