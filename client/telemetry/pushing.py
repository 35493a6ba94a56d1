"""The state of one client that pushes its metrics: what it asks for or pushes next, and when.

Pure. The client asks a broker for its subscription. If metrics are wanted, it pushes them after
each interval; the first interval is multiplied by a random factor of 0.5 to 1.5, so that not all
clients push at the same time. If no metrics are wanted, the client asks again after each interval.
Source: KIP-714.

    ASKING --metrics are wanted--> PUSHING --the subscription changed--> ASKING
      |  ^                            |
      |  +-- no metrics are wanted    +-- the client closes: one last push --> OFF
      +-- the broker refuses for good --> OFF
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ...protocol.compression import Codec
from ...protocol.errors import ErrorCode
from ...protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from ...protocol.messages.push_telemetry import PushTelemetryResponse
from ...protocol.types import ZERO_UUID
from ..net.backoff import Backoff, Dice

INTERVAL_MS: Final = 300_000
"""The ms between two pushes while no broker has named a valid interval."""
LEAST_INTERVAL_MS: Final = 100
"""The least ms between two pushes; in Kafka a shorter interval cannot be configured."""
PREFIXES_MAX: Final = 1_000
"""The most prefixes that are used, because each push compares all names with all of them."""
RETRY: Final = Backoff(5_000, INTERVAL_MS, steady_count=1)
"""The waits after requests that no broker answered."""
ASK_AT_ONCE: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors of a push which mean that the subscription has changed."""
NOT_NOW: Final = (ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.TELEMETRY_TOO_LARGE)


@dataclass(frozen=True, slots=True)
class Subscription:
    """The metrics that a broker asks this client for, and how they are to be pushed."""

    instance_id: bytes
    subscription_id: int
    interval_ms: int
    codec: Codec
    max_bytes: int
    is_delta: bool
    metrics: tuple[str, ...]
    """Prefixes of names; `*` and the empty prefix are all."""

    def wants(self, name: str) -> bool:
        """True if the metric is to be pushed."""
        return any(prefix == "*" or name.startswith(prefix) for prefix in self.metrics)


@dataclass(frozen=True, slots=True)
class Ask:
    """The step to ask for the subscription; the id is zeros in the first request."""

    instance_id: bytes


@dataclass(frozen=True, slots=True)
class Push:
    """The step to push the metrics of the subscription."""

    subscription: Subscription
    is_last: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """The step to do nothing before this monotonic time in ms."""

    until_ms: int


class _State(Enum):
    ASKING = auto()
    PUSHING = auto()
    OFF = auto()


class Pushing:
    """The state machine of one client: its requests for a subscription, and its pushes."""

    def __init__(self) -> None:
        self.subscription: Subscription | None = None
        """The newest subscription; None before the first one."""
        self._state = _State.ASKING
        self._due_ms = 0
        self._failure_count = 0

    @property
    def instance_id(self) -> bytes:
        """The id that a broker gave to this client; zeros before the first subscription."""
        return ZERO_UUID if self.subscription is None else self.subscription.instance_id

    @property
    def _interval_ms(self) -> int:
        return INTERVAL_MS if self.subscription is None else self.subscription.interval_ms

    def next_step(self, now_ms: int) -> Ask | Push | Wait | None:
        """Return the next step; None once nothing will be pushed any more."""
        if self._state is _State.OFF:
            return None
        if now_ms < self._due_ms:
            return Wait(self._due_ms)
        if self._state is _State.ASKING or self.subscription is None:
            return Ask(self.instance_id)
        return Push(self.subscription)

    def end(self) -> Push | None:
        """End the pushing; return the last push if metrics are wanted, else None."""
        was, self._state = self._state, _State.OFF
        if was is not _State.PUSHING or self.subscription is None:
            return None
        return Push(self.subscription, is_last=True)

    # -- answers

    def on_subscription(
        self, answer: GetTelemetrySubscriptionsResponse, now_ms: int, dice: Dice
    ) -> ErrorCode:
        """Apply the answer to an Ask; return its error code."""
        code = ErrorCode(answer.error_code)
        self._failure_count = 0
        self._due_ms = now_ms + max(self._interval_ms, answer.throttle_time_ms)
        if code is not ErrorCode.NONE:
            if not code.retriable and code not in (*ASK_AT_ONCE, *NOT_NOW):
                self._state = _State.OFF
            return code
        given = bytes(answer.client_instance_id)
        found = self.subscription = Subscription(
            given if given != ZERO_UUID else self.instance_id,
            answer.subscription_id,
            _interval_ms(answer.push_interval_ms),
            _preferred(answer.accepted_compression_types),
            answer.telemetry_max_bytes,
            answer.delta_temporality,
            tuple(answer.requested_metrics[:PREFIXES_MAX]),
        )
        wait_ms = found.interval_ms
        if found.metrics:
            self._state = _State.PUSHING
            wait_ms = round(wait_ms * (0.5 + dice.random()))
        self._due_ms = now_ms + max(wait_ms, answer.throttle_time_ms)
        return code

    def on_pushed(self, answer: PushTelemetryResponse, now_ms: int) -> ErrorCode:
        """Apply the answer to a Push; return its error code."""
        code = ErrorCode(answer.error_code)
        self._failure_count = 0
        self._due_ms = now_ms + max(self._interval_ms, answer.throttle_time_ms)
        if self._state is _State.OFF or code in (ErrorCode.NONE, NOT_NOW[0]):
            return code
        # The limit of a push that was too large is another than the subscription says.
        if code in (*ASK_AT_ONCE, *NOT_NOW) or code.retriable:
            self._state = _State.ASKING
            if code in ASK_AT_ONCE:
                self._due_ms = now_ms + answer.throttle_time_ms
        else:
            self._state = _State.OFF
        return code

    def on_failed(self, now_ms: int, dice: Dice) -> None:
        """Repeat the step after a backoff, because no broker answered."""
        self._failure_count += 1
        wait_ms = RETRY.after(self._failure_count, dice)
        self._due_ms = now_ms + min(wait_ms, self._interval_ms)


def _interval_ms(named_ms: int) -> int:
    return max(named_ms, LEAST_INTERVAL_MS) if named_ms > 0 else INTERVAL_MS


def _preferred(accepted: Iterable[int]) -> Codec:
    """Return the first codec of the broker's list that this client has; NONE if it has none."""
    known = Codec.__members__.values()
    return next((Codec(each) for each in accepted if each in known), Codec.NONE)
