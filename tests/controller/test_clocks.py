"""How far each broker's wall clock is ahead of the others'."""

from minikafka.controller.clocks import MOST_MS, Clocks


def test_a_broker_is_compared_with_the_median_of_those_that_live() -> None:
    clocks = Clocks()
    for broker, ahead_ms in ((1, 10_000), (2, 5), (3, -20)):
        clocks.note(broker, 1_000_000 + ahead_ms, 1_000_000)
    assert [clocks.ahead_ms(broker, [1, 2, 3]) for broker in (1, 2, 3)] == [9_995, 0, -25]
    # Of two the slower one counts: what is late can be mended.
    assert [clocks.ahead_ms(broker, [1, 2]) for broker in (1, 2)] == [9_995, 0]
    assert clocks.ahead_ms(1, [1]) == 0


def test_nothing_is_said_before_most_have_told_their_time() -> None:
    clocks = Clocks()
    assert clocks.ahead_ms(1, [1, 2, 3]) is None
    clocks.note(1, 10_000, 0)
    assert clocks.ahead_ms(1, [1, 2, 3]) is None
    clocks.note(2, 0, 0)
    assert clocks.ahead_ms(3, [1, 2, 3]) is None
    assert clocks.ahead_ms(1, [1, 2, 3]) == 10_000
    assert clocks.ahead_ms(1, []) is None
    clocks.note(1, 50_000, 50_000)
    assert clocks.ahead_ms(1, [1, 2, 3]) == 0


def test_a_clock_that_is_off_beyond_all_measure_counts_as_very_far() -> None:
    clocks = Clocks()
    clocks.note(1, 1 << 200, 0)
    clocks.note(2, 0, 1 << 62)
    assert clocks.ahead_ms(1, [1, 2]) == 2 * MOST_MS
