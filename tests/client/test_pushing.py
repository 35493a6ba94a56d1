"""When a client asks what to push, and when it pushes (KIP-714)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.telemetry.pushing import (
    INTERVAL_MS,
    LEAST_INTERVAL_MS,
    PREFIXES_MAX,
    RETRY,
    Ask,
    Push,
    Pushing,
    Subscription,
    Wait,
)
from minikafka.protocol.compression import Codec
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsResponse,
)
from minikafka.protocol.messages.push_telemetry import PushTelemetryResponse
from minikafka.protocol.types import ZERO_UUID

ME = bytes(range(16))
FIRST = Subscription(ME, 7, 1_000, Codec.LZ4, 5_000, False, ("org.",))


class Die:
    """Always the same number."""

    def __init__(self, value: float = 0.5) -> None:
        self.value = value

    def random(self) -> float:
        return self.value


def told(
    wanted: Subscription = FIRST, code: ErrorCode = ErrorCode.NONE, throttle_ms: int = 0
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=throttle_ms,
        error_code=int(code),
        client_instance_id=wanted.instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=[int(wanted.codec)],
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=wanted.max_bytes,
        delta_temporality=wanted.is_delta,
        requested_metrics=list(wanted.metrics),
    )


def answered(code: ErrorCode = ErrorCode.NONE, throttle_ms: int = 0) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=int(code), throttle_time_ms=throttle_ms)


def pushing(wanted: Subscription = FIRST) -> Pushing:
    """A client that was told at 0 what to push, and is to push at its interval."""
    made = Pushing()
    made.on_subscription(told(wanted), 0, Die())
    return made


def test_a_client_asks_at_once_and_has_no_id_yet() -> None:
    made = Pushing()
    assert made.next_step(0) == Ask(ZERO_UUID)
    assert made.instance_id == ZERO_UUID
    assert made.end() is None
    assert made.next_step(0) is None


@pytest.mark.parametrize(("luck", "first_ms"), [(0.0, 500), (0.5, 1_000), (0.999, 1_499)])
def test_the_first_push_comes_at_random_and_the_others_at_intervals(
    luck: float, first_ms: int
) -> None:
    made = Pushing()
    made.on_subscription(told(), 0, Die(luck))
    assert made.next_step(0) == Wait(first_ms)
    assert made.next_step(first_ms) == Push(FIRST)
    made.on_pushed(answered(), first_ms + 10)
    assert made.next_step(first_ms + 10) == Wait(first_ms + 1_010)
    assert made.next_step(first_ms + 1_010) == Push(FIRST)


def test_where_nothing_is_wanted_a_client_asks_again_after_the_interval() -> None:
    made = pushing(replace(FIRST, metrics=()))
    assert made.next_step(0) == Wait(1_000)
    assert made.next_step(1_000) == Ask(ME)
    assert made.end() is None
    # Another broker may not repeat the id, which stays the same.
    made = pushing(replace(FIRST, metrics=()))
    made.on_subscription(told(replace(FIRST, instance_id=ZERO_UUID)), 1_000, Die())
    assert made.next_step(2_000) == Push(FIRST)


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE]
)
def test_a_subscription_that_changed_is_asked_for_at_once(code: ErrorCode) -> None:
    made = pushing()
    assert made.on_pushed(answered(code), 1_000) is code
    assert made.next_step(1_000) == Ask(ME)
    changed = replace(FIRST, subscription_id=8, is_delta=True)
    made.on_subscription(told(changed), 1_000, Die(0.0))
    assert made.next_step(1_500) == Push(changed)


def test_after_a_push_that_is_too_large_the_limit_is_asked_for() -> None:
    made = pushing()
    made.on_pushed(answered(ErrorCode.TELEMETRY_TOO_LARGE), 1_000)
    assert made.next_step(1_000) == Wait(2_000)
    assert made.next_step(2_000) == Ask(ME)


def test_a_client_that_is_throttled_pushes_later() -> None:
    made = pushing()
    made.on_pushed(answered(ErrorCode.THROTTLING_QUOTA_EXCEEDED, 3_000), 1_000)
    assert made.next_step(3_999) == Wait(4_000)
    assert made.next_step(4_000) == Push(FIRST)
    made = Pushing()
    made.on_subscription(told(code=ErrorCode.THROTTLING_QUOTA_EXCEEDED), 0, Die())
    assert made.next_step(0) == Wait(INTERVAL_MS)
    made = Pushing()
    made.on_subscription(told(throttle_ms=9_000), 0, Die())
    assert made.next_step(0) == Wait(9_000)


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_RECORD, ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION]
)
def test_a_client_that_is_refused_for_good_is_silent(code: ErrorCode) -> None:
    made = pushing()
    made.on_pushed(answered(code), 1_000)
    assert made.next_step(INTERVAL_MS * 10) is None
    assert made.end() is None
    made = Pushing()
    made.on_subscription(told(code=code), 0, Die())
    assert made.next_step(INTERVAL_MS * 10) is None


def test_a_broker_that_does_not_answer_is_tried_again_ever_later() -> None:
    made, now_ms, waits = Pushing(), 0, []
    for _ in range(20):
        made.on_failed(now_ms, Die())
        step = made.next_step(now_ms)
        assert isinstance(step, Wait)
        waits.append(step.until_ms - now_ms)
        now_ms = step.until_ms
        assert made.next_step(now_ms) == Ask(ZERO_UUID)
    assert waits[:3] == [RETRY.first_ms, 2 * RETRY.first_ms, 4 * RETRY.first_ms]
    assert waits[-1] == INTERVAL_MS
    made.on_subscription(told(), now_ms, Die())
    made.on_failed(now_ms, Die())
    step = made.next_step(now_ms)
    assert step == Wait(now_ms + 1_000), "no wait is longer than the interval"


def test_a_client_that_closes_pushes_once_more() -> None:
    made = pushing()
    assert made.end() == Push(FIRST, is_last=True)
    made.on_pushed(answered(), 100)
    assert made.next_step(INTERVAL_MS) is None
    assert made.end() is None


def test_what_a_broker_says_wrongly_is_mended() -> None:
    made = Pushing()
    answer = told(replace(FIRST, interval_ms=0))
    answer.accepted_compression_types = [99, int(Codec.GZIP), int(Codec.ZSTD)]
    made.on_subscription(answer, 0, Die())
    assert made.subscription == replace(FIRST, interval_ms=INTERVAL_MS, codec=Codec.GZIP)
    answer.push_interval_ms = 1
    answer.requested_metrics = [f"{number}." for number in range(PREFIXES_MAX + 1)]
    answer.accepted_compression_types = []
    made.on_subscription(answer, 0, Die())
    assert made.subscription is not None
    assert made.subscription.codec is Codec.NONE
    assert made.subscription.interval_ms == LEAST_INTERVAL_MS
    assert len(made.subscription.metrics) == PREFIXES_MAX


def test_prefixes_choose_the_metrics() -> None:
    name = "org.apache.kafka.producer.request.total"
    for metrics, is_wanted in (
        (("*",), True),
        (("",), True),
        ((), False),
        (("org.apache.kafka.consumer.",), False),
        (("x", "org.apache.kafka.producer.req"), True),
        ((name,), True),
        ((name + ".",), False),
    ):
        assert replace(FIRST, metrics=metrics).wants(name) is is_wanted


@given(
    st.lists(st.sampled_from([*ErrorCode]), max_size=60),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
)
def test_no_broker_makes_a_client_ask_without_end(
    codes: list[ErrorCode], luck: float, is_wanted: bool
) -> None:
    """However brokers answer, there are at most three requests within half an interval."""
    made, now_ms, sent = Pushing(), 0, list[int]()
    wanted = FIRST if is_wanted else replace(FIRST, metrics=())
    for code in codes:
        step = made.next_step(now_ms)
        if isinstance(step, Wait):
            assert step.until_ms > now_ms
            now_ms = step.until_ms
            step = made.next_step(now_ms)
        assert not isinstance(step, Wait)
        if step is None:
            assert made.next_step(now_ms + INTERVAL_MS) is None
            break
        sent.append(now_ms)
        if isinstance(step, Ask):
            made.on_subscription(told(wanted, code), now_ms, Die(luck))
        else:
            made.on_pushed(answered(code), now_ms)
    assert all(later - first >= 500 for first, later in zip(sent, sent[3:], strict=False))
