"""The clients that push metrics to one broker, and the rules that accept or refuse a push.

A client gets an id for its instance with its first request. It asks for its subscription, pushes
once in each interval, and asks again when its subscription has changed. A request that comes too
early is refused with THROTTLING_QUOTA_EXCEEDED. If there are no subscriptions, every client is told
to ask again in five minutes, and the broker remembers no client. Source: KIP-714.
"""

from collections.abc import Mapping
from typing import Final

from ...protocol.compression import Codec, ExpandsTooFar, decompress
from ...protocol.control.image import ConfigResource
from ...protocol.errors import ApiError, ErrorCode, RemoteProtocolError
from ...protocol.messages.push_telemetry import PushTelemetryRequest
from ...protocol.otlp import Pushed, read_metrics
from .config import (
    CLIENTS_MAX,
    FIELDS_MAX,
    INTERVALS_SILENT,
    SAMPLES_PER_CLIENT_MAX,
    SHOWN_LENGTH_MAX,
    SILENT_MS,
)
from .readings import Readings
from .subscriptions import NONE, Asked, Client, Subscriptions

RESERVED_IDS: Final = (bytes(16), bytes(15) + b"\x01")
"""Ids that no instance may have: all zeros, and the id of Kafka's metadata topic."""
CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
"""The codecs that the broker offers, the preferred one first. Uncompressed metrics are accepted
too."""
EARLY_BY: Final = 10
"""A request may come early by the interval divided by this number. Timers and networks are not
exact, and a client whose push is throttled loses that push."""
ASK_AGAIN_AFTER: Final = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors of a push after which the client may ask for its subscription at once."""


class Instance:
    """One instance of a client, and the times of its last requests."""

    __slots__ = ("_asked_ms", "_may_push", "_pushed_ms", "asked", "by", "has_ended", "last_error")

    def __init__(self, asked: Asked, by: Subscriptions) -> None:
        self.asked = asked
        self.by = by
        """The object `Subscriptions` from which `asked` was computed."""
        self.has_ended = False
        """True after a push that was marked as the client's last."""
        self.last_error = ErrorCode.NONE
        self._asked_ms: int | None = None
        self._pushed_ms: int | None = None
        self._may_push = True

    @property
    def seen_ms(self) -> int:
        """The time of the last request that was not throttled."""
        return max(self._asked_ms or 0, self._pushed_ms or 0)

    @property
    def silent_ms(self) -> int:
        """Milliseconds without a request after which the client is forgotten."""
        return max(INTERVALS_SILENT * self.asked.interval_ms, SILENT_MS)

    def ask(self, now_ms: int) -> None:
        """Accept a request for the subscription.

        Raise ApiError THROTTLING_QUOTA_EXCEEDED if the request is too early.
        """
        is_early = self._is_early(self._asked_ms, now_ms) or self._is_early(self._pushed_ms, now_ms)
        if is_early and self.last_error not in ASK_AGAIN_AFTER:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._asked_ms, self._may_push, self.last_error = now_ms, True, ErrorCode.NONE

    def push(self, request: PushTelemetryRequest, now_ms: int, max_bytes: int) -> None:
        """Accept a push, whose metrics are read later.

        Raise ApiError if the push is too early or does not fit `asked`.
        """
        if self.has_ended:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        # Clients send the first push after a random part of the interval, so that pushes spread.
        is_early = not self._may_push and self._is_early(self._pushed_ms, now_ms)
        if is_early and not request.terminating:
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._pushed_ms, self._may_push = now_ms, False
        if request.subscription_id != self.asked.subscription_id:
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if request.compression_type not in Codec.__members__.values():
            raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(request.metrics) > max_bytes:
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _is_early(self, before_ms: int | None, now_ms: int) -> bool:
        interval_ms = self.asked.interval_ms
        return before_ms is not None and now_ms - before_ms < interval_ms - interval_ms // EARLY_BY


class ClientTelemetry:
    """The state of all clients that push to one broker."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.readings = Readings(SHOWN_LENGTH_MAX)
        self.throttled = 0
        """The number of requests that came too early."""
        self.unknown = 0
        """The number of pushes with a subscription id that is not the client's."""
        self.taken = 0
        """The number of pushes that were accepted and read."""
        self.unreadable = 0
        """The number of pushes that were too large when decompressed, or not valid OTLP."""
        self.cut = 0
        """The number of pushes of which some samples are not shown."""
        self._subscriptions = NONE
        self._instances: dict[bytes, Instance] = {}

    def __len__(self) -> int:
        """Return the number of clients that are remembered."""
        return len(self._instances)

    def on_configs(self, configs: Mapping[ConfigResource, Mapping[str, str]]) -> list[str]:
        """Use the subscriptions in `configs`; return a line for each one that cannot be read."""
        self._subscriptions = Subscriptions(configs)
        if not self._subscriptions:
            self._instances.clear()
        return self._subscriptions.unread

    def ask(self, instance_id: bytes, client: Client, now_ms: int) -> Asked:
        """Return the client's subscription; raise ApiError if it asks too early."""
        if not self._subscriptions:
            return self._subscriptions.asked_of(instance_id, client)
        instance = self._instance(instance_id, client, now_ms)
        try:
            instance.ask(now_ms)
        except ApiError:
            self.throttled += 1
            raise
        return instance.asked

    def push(self, request: PushTelemetryRequest, client: Client, now_ms: int) -> None:
        """Read a push and show its metrics; raise ApiError if the push is refused."""
        if request.client_instance_id in RESERVED_IDS:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not self._subscriptions:
            self.unknown += 1
            raise ApiError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        instance = self._instance(request.client_instance_id, client, now_ms)
        try:
            instance.push(request, now_ms, self.max_bytes)
            pushed = self._read(request) if request.metrics else None
        except ApiError as error:
            instance.last_error = error.code
            self.throttled += error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
            self.unknown += error.code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            raise
        finally:
            instance.has_ended = instance.has_ended or request.terminating
        instance.last_error = ErrorCode.NONE
        if pushed is not None:
            self.taken += 1
            until_ms = now_ms + (SILENT_MS if request.terminating else instance.silent_ms)
            take = self.readings.take
            self.cut += not take(request.client_instance_id, client, pushed, until_ms)

    def expire(self, now_ms: int) -> None:
        """Forget clients that were silent for too long, and metrics that are too old."""
        self.readings.expire(now_ms)
        for instance_id, instance in list(self._instances.items()):
            if now_ms - instance.seen_ms >= instance.silent_ms:
                del self._instances[instance_id]

    def _instance(self, instance_id: bytes, client: Client, now_ms: int) -> Instance:
        """Return an instance's state, a new one if it is unknown or its subscription has changed.

        The instance moves to the end of the order in which instances are forgotten.
        """
        found = self._instances.pop(instance_id, None)
        if found is not None and now_ms - found.seen_ms >= found.silent_ms:
            found = None
        if found is None or found.by is not self._subscriptions:
            asked = self._subscriptions.asked_of(instance_id, client)
            if found is None or asked != found.asked:
                found = Instance(asked, self._subscriptions)
            found.by = self._subscriptions
        self._instances[instance_id] = found
        if len(self._instances) > CLIENTS_MAX:
            del self._instances[next(iter(self._instances))]
        return found

    def _read(self, request: PushTelemetryRequest) -> Pushed:
        """Decompress and read the metrics.

        Raise ApiError if they are too large or not valid OTLP.
        """
        try:
            data = decompress(Codec(request.compression_type), request.metrics, self.max_bytes)
            return read_metrics(data, samples_max=SAMPLES_PER_CLIENT_MAX, fields_max=FIELDS_MAX)
        except ExpandsTooFar as error:
            self.unreadable += 1
            raise ApiError(ErrorCode.TELEMETRY_TOO_LARGE, str(error)) from error
        except RemoteProtocolError as error:
            self.unreadable += 1
            raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from error
