"""The quota of partitions that a client may create and delete (KIP-599).

The active controller has the buckets, because it decides about these changes, by whichever broker
they come. Another one that takes over begins with full buckets.
"""

from collections.abc import Mapping
from typing import Final

from ...protocol.api import ApiKey
from ...protocol.control.messages import ForwardedRequest
from ...protocol.errors import ApiError, ErrorCode
from ...security.quotas import MUTATION, Bucket, Quotas

REFUSED_SINCE: Final[Mapping[int, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""The first version of each request whose client knows THROTTLING_QUOTA_EXCEEDED. For a client in
debt, older ones are carried out all the same, and it waits afterwards."""


class Allowance:
    """The partitions that one request may create and delete, by the bucket of its client."""

    __slots__ = ("_bucket", "_now_ms", "_refuses", "throttle_ms")

    def __init__(self, bucket: Bucket | None, now_ms: int, *, refuses: bool) -> None:
        """Without a `bucket` everything is allowed. The time is monotonic."""
        self._bucket = bucket
        self._now_ms = now_ms
        self._refuses = refuses
        self.throttle_ms = 0
        """The milliseconds for which the client is to wait, as far as this request concerns it."""

    def spend(self, partitions: int) -> None:
        """Charge a change that is about to be decided, of so many partitions.

        It may lead into debt. Raise ApiError(THROTTLING_QUOTA_EXCEEDED) if there is one before it.
        """
        if self._bucket is None:
            return
        if not self._refuses:
            self.throttle_ms = self._bucket.take(partitions, self._now_ms)
            return
        self.throttle_ms = self._bucket.wait_ms(self._now_ms)
        if self.throttle_ms:
            detail = f"the quota {MUTATION.key} is used up: try again in {self.throttle_ms} ms"
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail)
        self._bucket.take(partitions, self._now_ms)


UNLIMITED: Final = Allowance(None, 0, refuses=False)
"""The allowance of whoever has no quota, and of brokers that ask in their own names."""


def allowance_of(quotas: Quotas, request: ForwardedRequest, now_ms: int) -> Allowance:
    """Return the allowance of a forwarded request; `now_ms` is monotonic."""
    since = REFUSED_SINCE.get(request.api_key)
    if since is None or quotas.entities is None or not request.principal:
        return UNLIMITED
    user = request.principal.partition(":")[2]
    (bucket,) = quotas.of(user, request.client_id, now_ms)
    return Allowance(bucket, now_ms, refuses=request.api_version >= since)
