"""The server's side of PostgresSource: connections, the publication, the slot, the snapshot."""

import select
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import psycopg2
import sqlalchemy as sa
from psycopg2 import errors, sql
from psycopg2.extras import LogicalReplicationConnection

from ..api import ConnectError
from .database import CONNECT_TIMEOUT_S, asked_of
from .pgoutput import Column, Relation

_OPTIONS = (
    "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c bytea_output=hex "
    "-c extra_float_digits=1"
)
"""Settings that make texts of values, in the stream and in the snapshot."""
_STATUS_INTERVAL_S = 10
_RELEASE_TIMEOUT_S, _RELEASE_STEP_S = 10.0, 0.1
"""How long it is waited for a slot whose reader has just gone."""
_COLUMNS = """
select c.oid, n.nspname, c.relname, c.relreplident = 'f', a.attname, a.atttypid::int8, a.atttypmod,
       coalesce(a.attnum = any (i.indkey), false)
from pg_publication_tables p
join pg_namespace n on n.nspname = p.schemaname
join pg_class c on c.relnamespace = n.oid and c.relname = p.tablename
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     and a.attgenerated = ''
left join pg_index i on i.indrelid = c.oid and i.indisprimary
where p.pubname = %s order by n.nspname, c.relname, a.attnum
"""


class Slot(NamedTuple):
    """A replication slot as it is."""

    is_active: bool
    is_lost: bool
    """True if the server has removed the log that it needs."""
    lag_bytes: int
    """Bytes of the log that the server keeps for it."""


def lsn_of(text: str) -> int:
    """Return the number of a position in the log."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


class Server:
    """Connections to one database, each opened when it is needed."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        url = sa.make_url(settings["connection.url"].strip())
        if url.get_backend_name() != "postgresql":
            raise ConnectError("connection.url: PostgresSource reads postgresql:// only")
        known = {
            "host": url.host,
            "port": url.port,
            "dbname": url.database,
            "user": settings["connection.user"] or url.username,
            "password": settings["connection.password"] or url.password,
            **url.query,
        }
        known["options"] = f"{asked_of(url)}{_OPTIONS}"
        known.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
        self._arguments = {name: value for name, value in known.items() if value is not None}
        self.slot_name: str = settings["slot.name"]
        self.publication: str = settings["publication.name"]

    def connect(self, **more: Any) -> Any:
        """Return a connection."""
        return psycopg2.connect(**self._arguments, **more)

    def ask(self, query: Any, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in a connection and a transaction of its own."""
        with closing(self.connect()) as connection:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(query, values)
            return list(cursor.fetchall()) if cursor.description else []

    def publish(self, tables: Sequence[str]) -> None:
        """Make the publication, of these tables or of all; one that is there must have them."""
        found = self.ask("select 1 from pg_publication where pubname = %s", self.publication)
        named = [sql.Identifier(*each.split(".")) for each in tables]
        every = sql.SQL("for table {}").format(sql.SQL(", ").join(named))
        if not found:
            create = sql.SQL("create publication {} {}")
            what = every if tables else sql.SQL("for all tables")
            self.ask(create.format(sql.Identifier(self.publication), what))
        published = {f"{each.schema}.{each.name}" for each in self.relations()}
        missing = [
            each for each in tables if (each if "." in each else f"public.{each}") not in published
        ]
        if missing:
            raise ConnectError(
                f"publication {self.publication} lacks {', '.join(missing)}; "
                f"ALTER PUBLICATION {self.publication} ADD TABLE {', '.join(missing)}"
            )

    def relations(self) -> list[Relation]:
        """Return the published tables as they are now, with the columns of primary keys as keys."""
        found: dict[int, Relation] = {}
        for oid, schema, name, is_full, *column in self.ask(_COLUMNS, self.publication):
            before = found.get(oid, Relation(oid, schema, name, is_full, ()))
            found[oid] = before._replace(columns=(*before.columns, Column(*column)))
        return list(found.values())

    def slot(self) -> Slot | None:
        """Return what there is of the slot."""
        query = """select active, coalesce(wal_status = 'lost', false),
            coalesce(pg_current_wal_lsn() - restart_lsn, 0)::int8
            from pg_replication_slots where slot_name = %s"""
        return next((Slot(*row) for row in self.ask(query, self.slot_name)), None)

    def drop_slot(self) -> None:
        """Remove the slot, so that the server keeps no log for it, once its last reader is gone."""
        deadline = time.monotonic() + _RELEASE_TIMEOUT_S
        while True:
            try:
                self.ask("select pg_drop_replication_slot(%s)", self.slot_name)
            except errors.ObjectInUse:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RELEASE_STEP_S)
            else:
                return

    def create_slot(self) -> "NewSlot":
        """Make the slot, and a snapshot of the database where its changes begin."""
        connection = self.connect(connection_factory=LogicalReplicationConnection)
        try:
            cursor = connection.cursor()
            name = sql.Identifier(self.slot_name).as_string(connection)
            cursor.execute(f"CREATE_REPLICATION_SLOT {name} LOGICAL pgoutput EXPORT_SNAPSHOT")
            _, position, snapshot, _ = cursor.fetchone()
            return NewSlot(self, connection, lsn_of(position), snapshot)
        except BaseException:
            connection.close()
            raise

    def stream(self) -> "Stream":
        """Begin to receive changes behind what was confirmed."""
        return Stream(self)


class NewSlot:
    """A slot that was just made; its snapshot lasts until it is closed."""

    def __init__(self, server: Server, connection: Any, lsn: int, snapshot: str) -> None:
        self._server, self._connection, self.lsn = server, connection, lsn
        self._snapshot = snapshot

    def rows(self, relation: Relation, size: int) -> Iterator[tuple[str | None, ...]]:
        """Yield the rows of a table, as texts."""
        with closing(self._server.connect()) as connection:
            connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
            cursor = connection.cursor()
            cursor.execute("set transaction snapshot %s", (self._snapshot,))
            oids = tuple({each.type_oid: None for each in relation.columns})
            texts = psycopg2.extensions.new_type(oids, "TEXTS", lambda value, _: value)
            rows = connection.cursor(name="rows")
            rows.itersize = size
            psycopg2.extensions.register_type(texts, rows)
            names = sql.SQL(", ").join([sql.Identifier(each.name) for each in relation.columns])
            table = sql.Identifier(relation.schema, relation.name)
            rows.execute(sql.SQL("select {} from {}").format(names, table))
            yield from rows

    def close(self) -> None:
        """Give the snapshot up."""
        self._connection.close()


class Stream:
    """The stream of changes."""

    def __init__(self, server: Server) -> None:
        self._connection = server.connect(connection_factory=LogicalReplicationConnection)
        try:
            self._cursor = self._connection.cursor()
            options = {"proto_version": "1", "publication_names": server.publication}
            self._cursor.start_replication(
                slot_name=server.slot_name,
                decode=False,
                options=options,
                status_interval=_STATUS_INTERVAL_S,
            )
        except BaseException:
            self._connection.close()
            raise

    def next(self) -> bytes | None:
        """Return the next message, None if none is there yet."""
        message = self._cursor.read_message()
        return None if message is None else message.payload

    def wait(self, seconds: float) -> None:
        """Wait until something may be there."""
        select.select([self._connection], [], [], seconds)

    @property
    def reached(self) -> int:
        """The position up to which the server has sent everything."""
        return int(self._cursor.wal_end)

    def confirm(self, lsn: int, *, at_once: bool = False) -> None:
        """Tell the server that it may forget what ends before this position."""
        if lsn:
            self._cursor.send_feedback(flush_lsn=lsn, reply=False, force=at_once)

    def close(self) -> None:
        """End the stream, so that the slot is free."""
        self._connection.close()
