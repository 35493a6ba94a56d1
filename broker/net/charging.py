"""Charges the requests of one connection to the quotas of its client, and mutes it while in debt.

A connection has a `Charging` only if the cluster has quotas. A muted connection is not read and
starts no request; requests that it has started are answered, and each answer states for how much
longer the connection stays muted (KIP-219). There is one timer for each muted connection, none for
a request.

    Produce   the bytes of the request, as it comes; it is carried out in any case
    Fetch     the bytes of the records, as they are answered; while in debt there are no records
    time      of the loop, between the begin of an event and each answer in it, and its end
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ...protocol.acls import CLUSTER_NAME, Operation, Resource
from ...protocol.api import ApiKey
from ...security.principal import ANONYMOUS, Principal
from ...security.quotas import Bucket
from ..deadlines import Deadline

if TYPE_CHECKING:
    from .connection import Connection

OF_BROKERS: Final = (ApiKey.WRITE_TXN_MARKERS, ApiKey.ADD_PARTITIONS_TO_TXN)
"""Requests of brokers. They cost no client's time if their sender may act for the cluster."""


class Charging:
    """The buckets of the client that uses a connection, and the time for which it is muted."""

    __slots__ = (
        "_began_us",
        "_client_id",
        "_connection",
        "_epoch",
        "_fetch",
        "_has_worked",
        "_is_exempt",
        "_principal",
        "_produce",
        "_request",
        "_timer",
        "_until_ms",
        "is_muted",
    )

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection
        self._epoch = -1
        self._principal: Principal | None = None
        self._client_id: str | None = None
        self._produce: Bucket | None = None
        self._fetch: Bucket | None = None
        self._request: Bucket | None = None
        self._began_us = -1
        """The time (monotonic us) up to which the event is charged; -1 outside an event. A task may
        build an answer too, and its waiting is not charged."""
        self._has_worked = False
        """True if the event has started or answered a request. The event that ends a mute is not
        charged otherwise, because a small quota would then mute the client for ever."""
        self._is_exempt = False
        """True if the latest request of the event costs no time."""
        self._until_ms = 0
        self._timer: Deadline | None = None
        self.is_muted = False
        """True while the connection is not read and starts no request."""

    def begin(self) -> None:
        """Begin to measure the time of an event."""
        if self._request is not None:
            self._began_us = self._connection.edge.runtime.monotonic_us()

    def end(self) -> bool:
        """Charge the remaining time of the event, if the event has done something for the client.

        Return True if the connection is muted.
        """
        if self._has_worked:
            self._charge_time()
        self._has_worked = self._is_exempt = False
        self._began_us = -1
        return self.is_muted

    def on_request(self, api_key: int, client_id: str | None, size: int) -> None:
        """Charge a request of `size` bytes, before it is handled."""
        connection = self._connection
        if (
            self._epoch != connection.edge.quotas.epoch
            or self._client_id != client_id
            or self._principal is not connection.session.principal
        ):
            self._look_up(client_id)
        is_exempt = api_key in OF_BROKERS and self._may_act_for_cluster()
        if self._has_worked and is_exempt is not self._is_exempt:
            self._charge_time()
        self._has_worked, self._is_exempt = True, is_exempt
        if api_key == ApiKey.PRODUCE and self._produce is not None:
            self._charge(self._produce, size)

    def is_in_debt(self) -> bool:
        """True if the client is over its fetch quota; the connection is then muted."""
        return self._fetch is not None and self._charge(self._fetch, 0)

    def admits(self, size: int) -> bool:
        """Charge `size` fetched bytes; return False if a debt exists and they may not be sent."""
        if self._fetch is None or not size:
            return True
        if self.is_in_debt():
            return False
        self._charge(self._fetch, size)
        return True

    def bound(self, max_bytes: int) -> int:
        """Return the most bytes that a fetch may read: `max_bytes`, or the whole bucket if less."""
        return max_bytes if self._fetch is None else min(max_bytes, max(int(self._fetch.size), 1))

    def owes(self) -> bool:
        """Charge the time so far; return True if the connection is muted."""
        self._has_worked = True
        self._charge_time()
        return self.is_muted

    def told(self, response: Any) -> Any:
        """Return the response, with the time in ms for which the connection is muted added."""
        if not self.owes() or not hasattr(response, "throttle_time_ms"):
            return response
        left_ms = self._until_ms - self._connection.edge.runtime.monotonic_ms()
        return replace(response, throttle_time_ms=max(left_ms, response.throttle_time_ms))

    def mute(self, quota: str, wait_ms: int) -> None:
        """Mute the connection for `wait_ms` from now, unless it is muted for longer already.

        `quota` is the key of the quota that the client has exceeded.
        """
        edge = self._connection.edge
        edge.quotas.note(quota)
        until_ms = edge.runtime.monotonic_ms() + wait_ms
        self._until_ms = max(self._until_ms, until_ms)
        self.is_muted = True
        if self._timer is None:
            self._timer = edge.deadlines.at(until_ms, self._on_time)

    def close(self) -> None:
        """End the timer, because the connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._connection.charging = None  # This ends a cycle, so that both are freed at once.

    def _look_up(self, client_id: str | None) -> None:
        """Look up the buckets again, because the client or the quotas have changed."""
        self._charge_time()
        connection = self._connection
        edge, principal = connection.edge, connection.session.principal
        self._epoch, self._principal, self._client_id = edge.quotas.epoch, principal, client_id
        if connection.guard is not None and principal is ANONYMOUS:
            # Not logged in yet. What strangers do must not use up the budget of anybody.
            self._produce = self._fetch = self._request = None
            return
        found = edge.quotas.of(principal.name, client_id, edge.runtime.monotonic_ms())
        self._produce, self._fetch, self._request = found
        self.begin()

    def _charge(self, bucket: Bucket, count: int) -> bool:
        """Take `count` tokens from a bucket; if it is then in debt, mute and return True."""
        edge = self._connection.edge
        wait_ms = bucket.take(count, edge.runtime.monotonic_ms())
        if wait_ms:
            self.mute(bucket.kind.key, wait_ms)
        return wait_ms > 0

    def _charge_time(self) -> None:
        if self._request is None or self._began_us < 0:
            return
        connection = self._connection
        now_us = connection.edge.runtime.monotonic_us()
        spent_us, self._began_us = now_us - self._began_us, now_us
        if spent_us > 0 and not (self._is_exempt or connection.is_replica):
            self._charge(self._request, spent_us)

    def _on_time(self) -> None:
        """End the mute, unless it was prolonged since the timer was set."""
        self._timer = None
        edge = self._connection.edge
        if edge.runtime.monotonic_ms() < self._until_ms:
            self._timer = edge.deadlines.at(self._until_ms, self._on_time)
            return
        self.is_muted = False
        self._connection.wake()

    def _may_act_for_cluster(self) -> bool:
        connection = self._connection
        authorizer = connection.edge.authorizer
        if authorizer is None:
            return True
        rights = connection.session.rights_by(authorizer, connection.host)
        return rights.may(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)
