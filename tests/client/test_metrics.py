import math

from minikafka.client.metrics import SAMPLE_MS, Stat


def test_totals_are_for_ever_and_rates_are_of_late() -> None:
    stat = Stat(0)
    for value in (10.0, 20.0, 60.0):
        stat.record(value, 1_000)
    assert (stat.count, stat.total) == (3, 90.0)
    assert stat.average(1_000) == 30.0
    assert stat.highest(1_000) == 60.0
    assert stat.rate(SAMPLE_MS - 1) == 90.0 * 1000 / (2 * SAMPLE_MS - 1)
    stat.record(2.0, SAMPLE_MS)
    assert stat.average(SAMPLE_MS) == 23.0
    assert stat.per_second(SAMPLE_MS) == 4 * 1000 / SAMPLE_MS
    assert stat.average(2 * SAMPLE_MS) == 2.0
    assert stat.highest(2 * SAMPLE_MS) == 2.0
    assert (stat.count, stat.total) == (4, 92.0)


def test_nothing_of_late_has_no_average() -> None:
    stat = Stat(5)
    assert math.isnan(stat.average(5))
    assert math.isnan(stat.highest(5))
    assert stat.rate(5) == 0
    stat.record(1.0, 6)
    assert math.isnan(stat.average(5 + 7 * SAMPLE_MS))
    assert stat.rate(5 + 7 * SAMPLE_MS) == 0
