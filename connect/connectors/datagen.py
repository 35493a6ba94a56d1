"""Datagen: made-up orders, users, clicks, trades or measurements, for tests and demonstrations.

Each record is a function of seed and number, so that a task that starts again goes on with the
next one, and never with another one of the same number.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from ..api import Props, SourceConnector, SourceContext, SourceTask
from ..config_def import INT64_MAX, ConfigDef
from ..data import STRING
from ..records import SourceRecord
from .datagen_templates import TEMPLATES
from .file_stream import IDLE_S
from .keys import BATCH_SIZE, TOPIC, choice, whole
from .ruled import share_of, shares, whole_in

BEHIND_S: Final = 1.0
"""Records that are late by more are not caught up with."""


class DatagenTask(SourceTask):
    """Makes every `task.count`-th record, from number `task.index` on."""

    now: Callable[[], float] = staticmethod(time.monotonic)
    """The clock that the rate counts by, in seconds."""

    def start(self, props: Props, context: SourceContext) -> None:
        """Go on with the committed number."""
        super().start(props, context)
        self._settings = settings = Datagen.config.parse(props)
        index, self._step = share_of(props)
        self._template = TEMPLATES[settings["template"]]
        self._schema = self._template.schema
        self._partition = {
            "template": settings["template"],
            "seed": settings["seed"],
            "task": f"{index} of {self._step}",
        }
        committed = context.offsets.read(self._partition)
        self._next = index if committed is None else whole_in(committed, "next")
        self._interval_s = self._step / settings["rate"] if settings["rate"] else 0.0
        self._due = self.now()
        self._dice = Random()

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the records that are due, or None."""
        count = min(self._count_due(), self._settings["batch.size"], self._count_left())
        if not count:
            time.sleep(min(IDLE_S, self.context.poll_timeout_ms / 1000))
            return None
        self._due += count * self._interval_s
        return [self._record() for _ in range(count)]

    def _count_due(self) -> int:
        if not self._interval_s:
            return int(self._settings["batch.size"])
        late_s = self.now() - self._due
        if late_s > BEHIND_S:
            self._due += late_s - BEHIND_S
        return int(min(late_s, BEHIND_S) / self._interval_s) + 1 if late_s >= 0 else 0

    def _count_left(self) -> int:
        """Return how many numbers below `count` are left for this task."""
        count: int = self._settings["count"]
        left = -((self._next - count) // self._step) if count else INT64_MAX
        return max(0, left)

    def _record(self) -> SourceRecord:
        number, settings = self._next, self._settings
        self._next += self._step
        time_ms = time.time_ns() // 1_000_000
        if settings["start.time.ms"]:
            time_ms = settings["start.time.ms"] + number * 1000 // (settings["rate"] or 1000)
        self._dice.seed(settings["seed"] << 64 | number)
        value = self._template.value(self._dice, number, time_ms)
        return SourceRecord(
            topic=settings["topic"],
            key=str(value[self._template.key]),
            key_schema=STRING,
            value=value,
            value_schema=self._schema,
            timestamp_ms=time_ms,
            source_partition=self._partition,
            source_offset={"next": self._next},
        )


class Datagen(SourceConnector):
    """Tasks that share the numbers of the records."""

    task = DatagenTask
    config = ConfigDef(
        [
            TOPIC,
            choice("template", "The kind of records.", tuple(TEMPLATES)),
            whole("rate", "Records a second, of all tasks; 0: as fast as they are taken.", 10),
            whole("count", "Records in all; 0: without an end.", 0, most=INT64_MAX),
            whole("seed", "Another seed makes other records.", 0, most=INT64_MAX),
            whole(
                "start.time.ms",
                "The time of the first record, in ms since the epoch; others follow by rate. "
                "0: the clock's.",
                0,
                most=INT64_MAX,
            ),
            BATCH_SIZE,
        ]
    )

    def exactly_once_support(self, props: Props) -> bool:
        """Return True: the offset is the number of the next record."""
        return True

    def task_configs(self, max_tasks: int) -> Sequence[Props]:
        """Return as many tasks as there may be. With another number of them all begin anew."""
        return shares(self.props, max_tasks)

    def alter_offsets(self, props: Props, offsets: Mapping[Any, Mapping[str, Any] | None]) -> bool:
        """Refuse what is no number of a next record."""
        return all(
            whole_in(offset, "next") >= 0 for offset in offsets.values() if offset is not None
        )
