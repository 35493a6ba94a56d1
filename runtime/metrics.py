"""Metrics: counts in plain fields, durations in buckets, and the text that a scrape gets.

Pure. The owner of a number keeps it in a field of its own; a collector reads such fields when a
scrape asks for them. Nothing here is registered globally, locked or computed ahead of time.
Formats: OpenMetrics 1.0 and Prometheus text 0.0.4.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, chain, islice
from typing import Final

SLICE_US: Final = 2_000
"""Microseconds of one slice, after which the caller may do other work."""
LINES_PER_SLICE: Final = 2_000
"""The most lines of a slice; a connection that is slow to read holds one slice in memory."""
LINES_AT_ONCE: Final = 250
"""The number of lines after which the clock is read to see if SLICE_US has passed."""

_STEPS_BITS: Final = 3
_STEPS: Final = 1 << _STEPS_BITS
_LONGEST_BITS: Final = 40
_BUCKETS: Final = (_LONGEST_BITS - _STEPS_BITS + 1) * _STEPS


class Kind(StrEnum):
    """The metric types of OpenMetrics that are used here."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


Sample = tuple[str, float]
"""The part of a sample's line after the family's name (a suffix, labels, both or nothing), and its
value."""


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """One metric with all its samples. `_total` is added to the names of a counter's samples."""

    name: str
    """The name, without `_total`."""
    kind: Kind
    help: str
    """One sentence, in one line."""
    samples: Iterable[Sample] = ()
    """The samples. They are iterated over once, in slices between which other tasks run. So an
    iterable over a collection that may change must use a copy of it."""
    lines: Iterable[str] = ()
    """Samples as finished lines without the metric's name: labels, a space, the value, a line feed.
    They save time in families of thousands, and are written after `samples`."""


Collector = Callable[[], Iterable[Family]]
"""Returns metrics; called at each scrape. No two collectors of a process return the same family."""


def labels(**values: str | int) -> str:
    """Return `{name="value",...}`, escaped, in the order of the arguments.

    Labels that are written at every scrape should be made only once.
    """
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items()) + "}"


def _escaped(value: str | int) -> str:
    if isinstance(value, int):
        return str(value)
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def counter(name: str, help_text: str, samples: Iterable[Sample]) -> Family:
    """Return a family of counts that only grow while the process lives."""
    return Family(name, Kind.COUNTER, help_text, samples)


def gauge(name: str, help_text: str, samples: Iterable[Sample] | float) -> Family:
    """Return a family of values that go up and down; a bare number is one sample without labels."""
    if isinstance(samples, int | float):
        samples = (("", samples),)
    return Family(name, Kind.GAUGE, help_text, samples)


def ready(name: str, help_text: str, lines: Iterable[str]) -> Family:
    """Return a gauge whose samples are finished lines; see `Family.lines`."""
    return Family(name, Kind.GAUGE, help_text, lines=lines)


class Durations:
    """Measured durations: quantiles over the last one to two minutes, and count and sum of all.

    There are eight buckets for each power of two, so a quantile is at most 12 % too high. Recording
    changes one list item and two sums. Reading quantiles starts a new time window when one is due.
    """

    __slots__ = ("_before", "_now", "_turned_ms", "count", "sum_us")

    WINDOW_MS: Final = 60_000
    QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
    """The quantiles that the rules of Kafka's JMX exporter write."""

    def __init__(self) -> None:
        self.count = 0
        self.sum_us = 0
        self._now = [0] * _BUCKETS
        self._before = [0] * _BUCKETS
        self._turned_ms: int | None = None

    def record(self, microseconds: int, count: int = 1) -> None:
        """Count `count` durations of `microseconds` each.

        A negative duration counts as 0, one of more than 12 days as 12 days.
        """
        self.count += count
        self.sum_us += microseconds * count
        if microseconds < _STEPS:
            self._now[microseconds if microseconds > 0 else 0] += count
            return
        shift = microseconds.bit_length() - _STEPS_BITS - 1
        index = (shift << _STEPS_BITS) + (microseconds >> shift)
        self._now[index if index < _BUCKETS else _BUCKETS - 1] += count

    def quantiles(self, now_ms: int) -> list[tuple[float, float]]:
        """Return (quantile, milliseconds) over the last minutes; NaN if nothing was recorded."""
        self._move_on(now_ms)
        cumulated = list(accumulate(map(int.__add__, self._now, self._before)))
        wanted = ((quantile, quantile * cumulated[-1]) for quantile in self.QUANTILES)
        if not cumulated[-1]:
            return [(quantile, float("nan")) for quantile, _ in wanted]
        return [(quantile, _upper_ms(bisect_left(cumulated, n))) for quantile, n in wanted]

    def _move_on(self, now_ms: int) -> None:
        if self._turned_ms is None:
            self._turned_ms = now_ms
        passed_ms = now_ms - self._turned_ms
        if passed_ms < self.WINDOW_MS:
            return
        self._before = self._now if passed_ms < 2 * self.WINDOW_MS else [0] * _BUCKETS
        self._now = [0] * _BUCKETS
        self._turned_ms = now_ms


def _upper_ms(index: int) -> float:
    """Return the upper end of a bucket, in milliseconds."""
    following = index + 1
    if following <= _STEPS:
        return following / 1000
    shift, step = divmod(following, _STEPS)
    return ((_STEPS + step) << (shift - 1)) / 1000


def summary(
    name: str, help_text: str, each: Iterable[tuple[str, Durations]], now_ms: int
) -> Family:
    """Return quantiles, count and sum in ms; `each` pairs labels, in braces, with durations."""
    return Family(
        name,
        Kind.SUMMARY,
        help_text,
        chain.from_iterable(_summed(tail, durations, now_ms) for tail, durations in each),
    )


def _summed(tail: str, durations: Durations, now_ms: int) -> Iterator[Sample]:
    opened = f"{tail[:-1]}," if tail else "{"
    for quantile, value in durations.quantiles(now_ms):
        yield f'{opened}quantile="{quantile}"}}', value
    yield f"_count{tail}", durations.count
    yield f"_sum{tail}", durations.sum_us / 1000


class Format(StrEnum):
    """The text formats, by their content type."""

    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def write(
    families: Iterable[Family], text_format: Format, now_us: Callable[[], int] = lambda: 0
) -> Iterator[bytes]:
    """Yield the text of the families in slices, between which the caller may let other tasks run.

    A slice ends after SLICE_US by the clock `now_us`, and after LINES_PER_SLICE lines.
    """
    is_open_metrics = text_format is Format.OPEN_METRICS
    parts: list[str] = []
    count, until_us = 0, now_us() + SLICE_US
    for family in families:
        sample_name = f"{family.name}_total" if family.kind is Kind.COUNTER else family.name
        name = family.name if is_open_metrics else sample_name
        parts.append(f"# HELP {name} {family.help}\n# TYPE {name} {family.kind}\n")
        for lines in _some_at_once(family):
            # Joining by the name is quicker than writing it into each line.
            parts += sample_name, sample_name.join(lines)
            count += len(lines)
            if count >= LINES_PER_SLICE or now_us() >= until_us:
                yield "".join(parts).encode()
                parts.clear()
                count, until_us = 0, now_us() + SLICE_US
    if is_open_metrics:
        parts.append("# EOF\n")
    yield "".join(parts).encode()


def _some_at_once(family: Family) -> Iterator[list[str]]:
    samples, ready_lines = iter(family.samples), iter(family.lines)
    while some := [f"{tail} {value}\n" for tail, value in islice(samples, LINES_AT_ONCE)]:
        yield some
    while some := list(islice(ready_lines, LINES_AT_ONCE)):
        yield some
