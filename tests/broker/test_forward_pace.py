from minikafka.broker.forward.pace import (
    LOOK_MS,
    PACE_MS,
    QUIET_MS,
    REST_MS,
    THROTTLE_MS,
    Pace,
    throttle_ms,
)


def test_small_steps_are_apart_and_full_ones_are_not() -> None:
    pace = Pace()
    assert pace.may_take(0)
    pace.on_taken(1_000, 1_000, 100)
    pace.on_taken(0, 1_000, 100)
    assert pace.may_take(100)
    pace.on_taken(5, 1_000, 100)
    assert not pace.may_take(100 + PACE_MS - 1)
    assert pace.may_take(100 + PACE_MS)
    assert pace.next_ms(101, 0, has_ends=False) == 100 + PACE_MS
    assert pace.next_ms(101, 500, has_ends=False) == 601


def test_the_clock_is_looked_at_now_and_then() -> None:
    pace = Pace()
    assert pace.next_ms(7, None, has_ends=False) is None
    assert pace.next_ms(7, 10 * LOOK_MS, has_ends=False) == 7 + LOOK_MS
    assert pace.next_ms(7, -5, has_ends=False) == 7


def test_answers_wait_for_a_step_for_a_while() -> None:
    pace = Pace()
    pace.on_first_end(50)
    assert pace.next_ms(60, 10 * QUIET_MS, has_ends=True) == 50 + QUIET_MS
    assert pace.next_ms(60, 5, has_ends=True) == 65
    assert not pace.are_ends_due(49 + QUIET_MS)
    assert pace.are_ends_due(50 + QUIET_MS)


def test_after_a_failure_nothing_is_tried_for_a_while() -> None:
    pace = Pace()
    pace.on_first_end(0)
    pace.rest(0)
    assert pace.is_resting(REST_MS - 1)
    assert pace.next_ms(1, 0, has_ends=True) == REST_MS
    assert pace.next_ms(1, None, has_ends=False) == REST_MS
    assert not pace.is_resting(REST_MS)


def test_r_33_producers_are_held_back_from_four_fifths_on_and_more_and_more() -> None:
    told = [throttle_ms(pending, 1_000) for pending in (0, 799, 800, 801, 900, 1_000, 5_000)]
    assert told == [0, 0, 1, 5, 500, THROTTLE_MS, THROTTLE_MS]
    assert throttle_ms(0, 1) == 0
