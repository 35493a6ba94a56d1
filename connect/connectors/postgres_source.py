"""PostgresSource: each change of a row becomes a record, by PostgreSQL's logical replication.

First the tables are read as they are in one snapshot, then their changes from there on, in the
order of commits. The server's slot moves on only behind what is in its topics.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg2

from ..api import ConnectError, Props, SourceConnector, SourceContext, SourceTask
from ..config_def import INT64_MAX, ConfigDef
from ..data import INT64, STRING, Schema, struct
from ..records import SourceRecord
from .database import CONNECTION
from .failures import Patience
from .keys import choice, flag, listed, text, whole
from .pgoutput import Begin, Change, Commit, Message, Relation, Truncate, Tuple, decode
from .postgres_progress import Position, Progress
from .postgres_rows import RowForm, form_of
from .postgres_server import NewSlot, Server, Stream

log = logging.getLogger(__name__)
_EPOCH_MS = 946_684_800_000
"""2000-01-01, from which PostgreSQL counts."""
_LOOK_EVERY_S = 10.0
_SOURCE = struct({"lsn": INT64, "txId": INT64, "schema": STRING, "table": STRING})


def _no_slot_name(name: str) -> str | None:
    return None if re.fullmatch(r"[a-z0-9_]{1,63}", name) else "must be of a-z, 0-9 and _"


POSTGRES_SOURCE = ConfigDef(
    [
        *[CONNECTION.keys[f"connection.{name}"] for name in ("url", "user", "password")],
        text("topic.prefix", "Put before schema.table for the name of a topic."),
        listed(
            "tables",
            "The tables, as schema.table; empty: those of the publication, which is made for all "
            "tables if it is not there.",
        ),
        text("publication.name", "The publication.", "minikafka"),
        text(
            "slot.name",
            "The replication slot, one for each connector. Drop it when the connector is deleted: "
            "the server keeps its log for it.",
            "minikafka",
            check=_no_slot_name,
        ),
        whole(
            "slot.max.lag.bytes",
            "If the server keeps more of its log for the slot, the slot is dropped and the task "
            "fails, so that the server's disk is not filled; -1: never. While no task runs, only "
            "the server's max_slot_wal_keep_size guards it.",
            -1,
            -1,
            INT64_MAX,
        ),
        choice(
            "snapshot.mode",
            "`initial`: the tables are read once, at the first start; `when_needed`: also when the "
            "slot was lost; `never`: only changes are read.",
            ("initial", "when_needed", "never"),
        ),
        flag(
            "after.state.only",
            "The value is the new row alone, as SqlSink takes it, and a deleted row has only a "
            "record without a value; else it tells op, before, after and source.",
            False,
        ),
        flag(
            "tombstones.on.delete",
            "A record without a value follows that of a deleted row, for compacted topics.",
            True,
        ),
        text(
            "unavailable.value.placeholder",
            "Stands for a large text or bytes that an update did not change, and that PostgreSQL "
            "does not tell. With REPLICA IDENTITY FULL it tells all.",
            "__minikafka_unavailable_value",
        ),
        whole("batch.max.rows", "About how many records are handed over at once.", 2000, 1),
        whole("max.retries", "How often in a row the connection is made anew.", 10),
        whole("retry.backoff.ms", "The wait before that.", 5000, 0, INT64_MAX),
    ]
)


class PostgresSourceTask(SourceTask):
    """Reads the snapshot, then the stream."""

    def start(self, props: Props, context: SourceContext) -> None:
        """Look what there is: an offset, a slot, or nothing."""
        super().start(props, context)
        self._settings = settings = POSTGRES_SOURCE.parse(props)
        self._server = Server(settings)
        self._partition = {"slot": settings["slot.name"]}
        self._records = ChangeRecords(settings, self._partition)
        self._patience = Patience(settings["max.retries"], settings["retry.backoff.ms"])
        self._size: int = settings["batch.max.rows"]
        self._stream: Stream | None = None
        self._snapshot: Iterator[SourceRecord] | None = None
        self._has_boundaries = context.transaction is not None
        self._gathered: list[SourceRecord] = []
        self._ends: SourceRecord | None = None
        """The record that the database's transaction ended with, if that is ours too."""
        self._look_at = 0.0
        offset = context.offsets.read(self._partition) or {}
        at = Position(offset["lsn"], offset["event"]) if "lsn" in offset else None
        try:
            self._server.publish([each for each in settings["tables"] if each])
            self._begin(at)
        except psycopg2.Error as error:
            raise ConnectError(f"PostgreSQL: {_told(error)}") from None

    def poll(self) -> list[SourceRecord] | None:
        """Return the next rows of the snapshot, or the next changes."""
        if self._snapshot is not None:
            return self._next_of_snapshot()
        try:
            if self._stream is None:
                self._stream = self._server.stream()
            self._receive(self._stream)
            self._keep_up(self._stream)
        except psycopg2.Error as error:
            self._disconnect()
            if not self._records_due():
                raise self._patience.after(f"PostgreSQL: {_told(error)}") from None
        else:
            self._patience.calm()
        return self._handed_over()

    def commit_record(self, record: SourceRecord, metadata: Any | None) -> None:
        """Take note of a record that is in its topic: its transaction may be forgotten then."""
        if record.source_offset.get("event"):
            self._progress.arrived(record.source_offset["lsn"])

    def stop(self) -> None:
        """Tell the server how far everything is, and disconnect."""
        stream = getattr(self, "_stream", None)
        if stream is not None:
            try:
                self._confirm(stream, at_once=True)
            except psycopg2.Error as error:
                log.info("PostgreSQL: %s", _told(error))
            self._disconnect()
        snapshot = getattr(self, "_snapshot", None)
        if snapshot is not None:
            snapshot.close()

    def _begin(self, at: Position | None) -> None:
        """Decide between the stream, a snapshot, and giving up."""
        slot, mode = self._server.slot(), self._settings["snapshot.mode"]
        is_there = slot is not None and not slot.is_lost
        self._progress = Progress(at or Position(0, 0), 0)
        if is_there and (at is not None or mode == "never"):
            return
        if at is not None and mode != "when_needed":
            raise ConnectError(
                f"slot {self._server.slot_name} is gone, and with it the changes since "
                f"{at.offset()}; reset the connector's offsets to read the tables anew, or set "
                "snapshot.mode=when_needed"
            )
        if slot is not None:  # lost, or of a snapshot that was not finished
            self._server.drop_slot()
        new = self._server.create_slot()
        self._progress = Progress(Position(new.lsn, 0), 0)
        if mode == "never":
            new.close()
        else:
            self._snapshot = self._rows(new)

    def _rows(self, new: NewSlot) -> Iterator[SourceRecord]:
        """Yield the rows of the snapshot; only the last one's offset says that it is complete."""
        ahead: SourceRecord | None = None
        try:
            for relation in self._server.relations():
                form = self._records.know(relation)
                for row in new.rows(relation, self._size):
                    if ahead is not None:
                        yield ahead
                    ahead = self._records.of_snapshot(form, row, new.lsn)
            if ahead is not None:
                yield ahead.with_(source_offset=Position(new.lsn, 0).offset())
        finally:
            new.close()

    def _next_of_snapshot(self) -> list[SourceRecord] | None:
        records: list[SourceRecord] = []
        try:
            for record in self._snapshot or ():
                records.append(record)
                if len(records) >= self._size:
                    return records
        except psycopg2.Error as error:
            raise ConnectError(
                f"the snapshot has failed, and begins anew: {_told(error)}"
            ) from None
        self._snapshot = None
        if records and self.context.transaction is not None:
            self.context.transaction.commit(records[-1])
        return records or None

    def _receive(self, stream: Stream) -> None:
        """Gather all changes that there are, or about as many as a batch may have."""
        has_waited = False
        most = max(self._size, 2)  # with one, the record that is kept would be all
        while len(self._gathered) < most and self._ends is None:
            payload = stream.next()
            if payload is None:
                if has_waited or self._records_due():
                    break
                self._progress.reached(stream.reached)
                stream.wait(self.context.poll_timeout_ms / 1000)
                has_waited = True
                continue
            message = decode(payload)
            if message is not None:
                self._gathered += self._take(message)
            if isinstance(message, Commit) and self._gathered and self._has_boundaries:
                self._ends = self._gathered[-1]

    def _records_due(self) -> int:
        """Return how many records can be handed over.

        Where the database's transactions are the connector's, the last record is kept until it is
        known whether its transaction ends there.
        """
        return max(0, len(self._gathered) - (self._has_boundaries and self._ends is None))

    def _handed_over(self) -> list[SourceRecord] | None:
        count = self._records_due()
        records, self._gathered = self._gathered[:count], self._gathered[count:]
        if self._ends is not None and self.context.transaction is not None:
            self.context.transaction.commit(self._ends)
        self._ends = None
        return records or None

    def _take(self, message: Message) -> list[SourceRecord]:
        progress = self._progress
        if isinstance(message, Relation):
            if message.has_full_identity:
                message = self._with_primary_key(message)
            self._records.know(message)
        elif isinstance(message, Begin):
            progress.begin(message.commit_lsn)
            self._records.transaction = message
        elif isinstance(message, Commit):
            progress.end(message.end_lsn)
        else:
            made = []
            for record in self._records.of_change(message):
                if (position := progress.next()) is not None:
                    made.append(record.with_(source_offset=position.offset()))
            return made
        return []

    def _with_primary_key(self, relation: Relation) -> Relation:
        """Return the relation with the keys of its primary key; pgoutput calls all columns keys."""
        known = {each.oid: each for each in self._server.relations()}.get(relation.oid, relation)
        keys = [each.name for each in known.columns if each.is_key and known is not relation]
        columns = [each._replace(is_key=each.name in keys) for each in relation.columns]
        return relation._replace(columns=tuple(columns))

    def _confirm(self, stream: Stream, *, at_once: bool = False) -> None:
        stream.confirm(self._progress.confirmed, at_once=at_once)

    def _keep_up(self, stream: Stream) -> None:
        """Confirm what is done, and look now and then how much log the server keeps."""
        self._confirm(stream)
        most = self._settings["slot.max.lag.bytes"]
        if most < 0 or time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_EVERY_S
        slot = self._server.slot()
        if slot is None or slot.lag_bytes <= most:
            return
        self._disconnect()
        self._server.drop_slot()
        raise ConnectError(
            f"slot {self._server.slot_name} kept {slot.lag_bytes} bytes of the server's log, more "
            f"than slot.max.lag.bytes={most}: it was dropped, and later changes are lost; find out "
            "why records are not taken, then reset the offsets, or set snapshot.mode=when_needed"
        )

    def _disconnect(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None


class ChangeRecords:
    """Makes records of changes, in the form that the configuration asks for."""

    def __init__(self, settings: Mapping[str, Any], partition: Mapping[str, Any]) -> None:
        self._prefix: str = settings["topic.prefix"]
        self._after_only: bool = settings["after.state.only"]
        self._tombstones: bool = settings["tombstones.on.delete"]
        self._placeholder: str = settings["unavailable.value.placeholder"]
        self._partition = partition
        self._forms: dict[int, tuple[RowForm, Schema]] = {}
        self.transaction = Begin(0, 0, 0)

    def know(self, relation: Relation) -> RowForm:
        """Take a table as it is from now on."""
        form = form_of(relation)
        row = form.schema.as_optional()
        name = f"{relation.schema}.{relation.name}.Envelope"
        fields = {"op": STRING, "before": row, "after": row, "source": _SOURCE, "ts_ms": INT64}
        self._forms[relation.oid] = form, struct(fields, name=name)
        return form

    def of_snapshot(self, form: RowForm, values: Tuple, lsn: int) -> SourceRecord:
        """Return the record of a row that was there before."""
        self.transaction = Begin(lsn, 0, 0)
        row = form.row(values, None, self._placeholder)
        return self._record(form, "r", None, row).with_(source_offset={"snapshot": True})

    def of_change(self, change: Change | Truncate) -> list[SourceRecord]:
        """Return the records of a change, without their offsets."""
        if isinstance(change, Truncate):
            forms = [self._forms[each][0] for each in change.relations]
            return (
                [] if self._after_only else [self._record(each, "t", None, None) for each in forms]
            )
        form, _ = self._forms[change.relation]
        old = None if change.old is None else form.row(change.old, None, self._placeholder)
        if change.new is None:
            return self._deleted(form, old or {})
        row = form.row(change.new, change.old, self._placeholder)
        before = old if form.relation.has_full_identity else None
        if change.kind == "U" and old is not None and form.key(old) != form.key(row):
            return [*self._deleted(form, old), self._record(form, "c", None, row)]
        return [self._record(form, "c" if change.kind == "I" else "u", before, row)]

    def _deleted(self, form: RowForm, old: Mapping[str, Any]) -> list[SourceRecord]:
        deleted = self._record(form, "d", old, None)
        tombstone = deleted.with_(value=None, value_schema=None)
        if self._after_only:
            return [tombstone]
        return [deleted, tombstone] if self._tombstones else [deleted]

    def _record(
        self, form: RowForm, op: str, before: Mapping[str, Any] | None, after: Any
    ) -> SourceRecord:
        relation, transaction = form.relation, self.transaction
        row = after if after is not None else before
        commit_ms = _EPOCH_MS + transaction.commit_us // 1000 if transaction.commit_us else None
        value, schema = after, form.schema
        if not self._after_only:
            source = {
                "lsn": transaction.commit_lsn,
                "txId": transaction.xid,
                "schema": relation.schema,
                "table": relation.name,
            }
            value = {"op": op, "before": before, "after": after, "source": source}
            value["ts_ms"] = commit_ms or 0
            schema = self._forms[relation.oid][1]
        return SourceRecord(
            topic=f"{self._prefix}{relation.schema}.{relation.name}",
            key=None if row is None else form.key(row),
            key_schema=None if row is None else form.key_schema,
            value=value,
            value_schema=schema,
            timestamp_ms=commit_ms,
            source_partition=self._partition,
            source_offset={},
        )


def _told(error: psycopg2.Error) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__


class PostgresSource(SourceConnector):
    """Streams the changes of a PostgreSQL database."""

    task = PostgresSourceTask
    config = POSTGRES_SOURCE

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return one task: a slot has one reader."""
        return [self.props]

    def exactly_once_support(self, props: Props) -> bool:
        """Return True if no snapshot can be begun again whose rows were committed."""
        boundary = props.get("transaction.boundary", "poll")
        return props.get("snapshot.mode") == "never" or boundary == "connector"

    def can_define_transaction_boundaries(self, props: Props) -> bool:
        """Return True: the snapshot, and each transaction of the database, are one transaction."""
        return True

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Refuse other offsets than none: the slot says what the server still has."""
        if any(offset is not None for offset in offsets.values()):
            raise ConnectError("only a reset is possible: then the tables are read anew")
        return True
