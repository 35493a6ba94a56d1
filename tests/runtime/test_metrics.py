"""Durations and the text of metrics."""

import math
import random
from collections.abc import Iterable, Iterator

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from minikafka.runtime import metrics
from minikafka.runtime.metrics import (
    Durations,
    Family,
    Format,
    counter,
    gauge,
    labels,
    ready,
    summary,
    write,
)


def text(families: Iterable[Family], text_format: Format = Format.OPEN_METRICS) -> str:
    return b"".join(write(families, text_format)).decode()


def test_a_quantile_is_never_too_low_and_at_most_an_eighth_too_high() -> None:
    durations = Durations()
    dice = random.Random(2)
    values = sorted(int(dice.lognormvariate(7, 3)) for _ in range(5_000))
    for value in values:
        durations.record(value)
    for quantile, milliseconds in durations.quantiles(0):
        true_us = values[math.ceil(quantile * len(values)) - 1]
        assert true_us / 1000 <= milliseconds <= (true_us * 1.125 + 1) / 1000
    assert (durations.count, durations.sum_us) == (5_000, sum(values))


@pytest.mark.parametrize("microseconds", [-5, 0, 7, 8, 15, 16, 1 << 39, 1 << 60])
def test_any_duration_has_a_bucket(microseconds: int) -> None:
    durations = Durations()
    durations.record(microseconds)
    [*_, (_, milliseconds)] = durations.quantiles(0)
    assert milliseconds >= min(microseconds, (1 << 40) - 1) / 1000


def test_quantiles_are_of_the_last_two_minutes() -> None:
    durations = Durations()
    durations.record(1_000_000)
    assert dict(durations.quantiles(0))[0.5] >= 1_000
    durations.record(8)
    assert dict(durations.quantiles(60_000))[0.999] >= 1_000
    durations.record(8)
    assert dict(durations.quantiles(120_000))[0.999] < 1
    assert all(math.isnan(value) for _, value in durations.quantiles(240_000))
    assert durations.count == 3


def test_both_formats_are_read_by_the_parsers_of_prometheus() -> None:
    durations = Durations()
    durations.record(2_000)

    def families() -> Iterator[Family]:
        yield counter("bytes_in", "Bytes.", [("", 7), (labels(topic='a"\\\n', broker=1), 3)])
        yield gauge("open_files", "Files.", 5)
        yield summary("took_ms", "Times.", [("", durations), (labels(api="Fetch"), Durations())], 0)

    for parse, text_format in (
        (open_metrics, Format.OPEN_METRICS),
        (prometheus, Format.PROMETHEUS),
    ):
        samples = [s for f in parse(text(families(), text_format)) for s in f.samples]
        values = {(s.name, tuple(s.labels.items())): s.value for s in samples}
        assert values["bytes_in_total", (("topic", 'a"\\\n'), ("broker", "1"))] == 3
        assert values["open_files", ()] == 5
        assert values["took_ms_count", ()] == 1
        assert values["took_ms_sum", ()] == 2.0
        assert 2 <= values["took_ms", (("quantile", "0.99"),)] <= 2.25
        assert math.isnan(values["took_ms", (("api", "Fetch"), ("quantile", "0.5"))])


def test_a_large_family_is_written_in_slices() -> None:
    samples = [(labels(partition=p), p) for p in range(4_500)]
    ready_lines = [f"{tail} {value}\n" for tail, value in samples]
    for family in (gauge("log_end", "Offsets.", samples), ready("log_end", "Ends.", ready_lines)):
        slices = list(write([family], Format.OPEN_METRICS))
        assert len(slices) == 3
        assert max(piece.count(b"\n") for piece in slices) <= metrics.LINES_PER_SLICE + 2
        assert b"".join(slices).count(b"\nlog_end{") == 4_500
        assert b'\nlog_end{partition="4499"} 4499\n' in slices[-1]


def test_a_slice_ends_when_its_time_is_over() -> None:
    now_us = 0

    def slow() -> Iterator[str]:
        nonlocal now_us
        for partition in range(4 * metrics.LINES_AT_ONCE):
            now_us += metrics.SLICE_US // metrics.LINES_AT_ONCE
            yield f"{labels(partition=partition)} 0\n"

    slices = list(write([ready("slow", "Slow.", slow())], Format.OPEN_METRICS, lambda: now_us))
    assert [piece.count(b"slow{") for piece in slices] == [metrics.LINES_AT_ONCE] * 4 + [0]
