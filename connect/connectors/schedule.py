"""Schedule: a record at each time of a cron expression, in any time zone, exactly once.

The offset is the time of the last record, so that nothing is emitted twice over restarts and all
that was missed is known. With `delay.ahead.ms` records go to a delay topic before their time, and
the brokers deliver them in time whether a worker runs or not (docs/delay.md).
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from ...protocol.delays import DELIVER_AT
from ..api import ConnectError, Props, SourceConnector, SourceContext, SourceTask
from ..data import INT64, STRING, struct
from ..records import Header, SourceRecord
from .file_stream import IDLE_S
from .keys import BATCH_SIZE, TOPIC, choice, text, whole, wrong_zone
from .ruled import RuledDef, needed, whole_in

SCHEMA: Final = struct({"schedule": STRING, "tick_ms": INT64, "local": STRING})
_SECOND: Final = timedelta(seconds=1)


def tick_after(cron: str, zone: ZoneInfo, moment: datetime) -> datetime:
    """Return the first tick after `moment`, in `zone`. Raise ConnectError if there is none.

    It depends on nothing else, so that a task that starts again finds the same ticks. Where clocks
    change, it follows Debian's cron.
    """
    cronsim = needed("cronsim")
    try:
        tick: datetime | None = next(cronsim.CronSim(cron, moment.astimezone(zone)), None)
    except cronsim.CronSimError as error:
        form = "minute, hour, day of month, month, day of week"
        raise ConnectError(f"{error}; write {form}") from error
    if tick is None:
        raise ConnectError(f"no time matches in the 50 years after {moment}")
    return tick


def tick_before(cron: str, zone: ZoneInfo, moment: datetime) -> datetime:
    """Return the last tick at or before `moment`; `moment` of 1970 if there is none."""
    begin = (moment + _SECOND).astimezone(zone)
    found = next(needed("cronsim").CronSim(cron, begin, reverse=True), None)
    return datetime.fromtimestamp(0, UTC) if found is None else found


class ScheduleTask(SourceTask):
    """Emits the ticks that are due."""

    def start(self, props: Props, context: SourceContext) -> None:
        """Go on behind the last tick, or begin at `start.time`, or now."""
        super().start(props, context)
        self._settings = settings = Schedule.config.parse(props)
        self._name = props.get("name", "schedule")
        self._zone = ZoneInfo(settings["timezone"])
        self._late = timedelta(milliseconds=settings["late.ms"])
        self._ahead = timedelta(milliseconds=settings["delay.ahead.ms"])
        self._partition = {"schedule": self._name}
        committed = context.offsets.read(self._partition)
        if committed is not None:
            self._last = datetime.fromtimestamp(whole_in(committed, "tick_ms") / 1000, UTC)
        elif settings["start.time"]:
            self._last = _moment(settings["start.time"], self._zone) - _SECOND
        else:
            self._last = self.now()
        self._next = tick_after(settings["cron"], self._zone, self._last)

    def now(self) -> datetime:
        """Return the time by the worker's clock."""
        return datetime.fromtimestamp(time.time(), UTC)

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return a record for each tick that is due, or None."""
        now = self.now()
        if self._next + self._late < now:
            self._skip_missed(now)
        records: list[SourceRecord] = []
        while self._next - self._ahead <= now and len(records) < self._settings["batch.size"]:
            records.append(self._record(self._next))
            self._advance(self._next)
        if not records:
            time.sleep(min(IDLE_S, self.context.poll_timeout_ms / 1000))
        return records or None

    def _advance(self, moment: datetime) -> None:
        self._last = moment
        self._next = tick_after(self._settings["cron"], self._zone, moment)

    def _skip_missed(self, now: datetime) -> None:
        """Leave out the ticks that are too late, as `catch.up` says."""
        policy, end = self._settings["catch.up"], now - self._late - _SECOND
        if policy == "all":
            return
        if policy == "last":
            end = min(end, tick_before(self._settings["cron"], self._zone, now) - _SECOND)
        if end > self._last:
            self._advance(end)

    def _record(self, tick: datetime) -> SourceRecord:
        settings, tick_ms = self._settings, round(tick.timestamp() * 1000)
        value: Any = settings["value"]
        schema = STRING
        if value is None:
            local = tick.astimezone(self._zone).isoformat()
            value, schema = {"schedule": self._name, "tick_ms": tick_ms, "local": local}, SCHEMA
        return SourceRecord(
            topic=settings["topic"],
            key=settings["key"],
            key_schema=None if settings["key"] is None else STRING,
            value=value,
            value_schema=schema,
            headers=(Header(DELIVER_AT, str(tick_ms), STRING),) if self._ahead else (),
            # A delay topic takes the time from the header, and its own retention from this.
            timestamp_ms=None if self._ahead else tick_ms,
            source_partition=self._partition,
            source_offset={"tick_ms": tick_ms},
        )


def _moment(described: str, zone: ZoneInfo) -> datetime:
    """Return the moment that ISO 8601 names; without an offset it is one of the time zone."""
    moment = datetime.fromisoformat(described)
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def _wrong_start(described: str) -> str | None:
    try:
        _moment(described, ZoneInfo("UTC"))
    except ValueError as error:
        return f"must be a time in ISO 8601, such as 2027-01-01T00:00: {error}"
    return None


def _rules(settings: Mapping[str, Any]) -> Mapping[str, str]:
    try:
        tick_after(settings["cron"], ZoneInfo(settings["timezone"]), datetime.now(UTC))
    except ConnectError as error:
        return {"cron": str(error)}
    return {}


class Schedule(SourceConnector):
    """One task that emits the ticks of one cron expression."""

    task = ScheduleTask
    config = RuledDef(
        [
            text("cron", "The times: five fields as in crontab(5), or six with seconds in front."),
            TOPIC,
            text("timezone", "The time zone of the expression.", "UTC", wrong_zone),
            text("key", "The key of the records.", None),
            text("value", "Their value; without it, which schedule, and the time.", None),
            choice(
                "catch.up",
                "Of the ticks that were missed: the last one, all, or none.",
                ("last", "all", "none"),
            ),
            whole("late.ms", "A tick counts as missed when it is as late as this.", 60_000, 1000),
            text(
                "start.time",
                "The time in ISO 8601 from which ticks count, at the first start; without it, now.",
                None,
                _wrong_start,
            ),
            whole(
                "delay.ahead.ms",
                "How long before its time a record is written, with the header "
                "minikafka-deliver-at, into a topic that is a delay topic; 0: at its time.",
                0,
                most=366 * 86_400_000,
            ),
            BATCH_SIZE,
        ],
        _rules,
    )

    def exactly_once_support(self, props: Props) -> bool:
        """Return True: the offset is the time of the last record."""
        return True

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Refuse what is no time of a last record."""
        return all(
            whole_in(offset, "tick_ms") >= 0 for offset in offsets.values() if offset is not None
        )
