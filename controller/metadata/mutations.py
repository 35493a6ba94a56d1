"""The quota of partitions that a client may create and delete (KIP-599).

The active controller keeps the buckets, because every such change reaches it, through whichever
broker the client asks. A controller that takes over begins with full buckets.
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
"""By API key, the first version of the request whose clients know THROTTLING_QUOTA_EXCEEDED. An
older request over the quota is carried out, and its client is throttled afterwards."""


class Allowance:
    """The quota that one request charges for the partitions that it creates or deletes."""

    __slots__ = ("_bucket", "_now_ms", "_refuses", "throttle_ms")

    def __init__(self, bucket: Bucket | None, now_ms: int, *, refuses: bool) -> None:
        """Allow everything if `bucket` is None. `now_ms` is monotonic.

        `refuses` is true if a client over its quota gets an error, not only a throttle time.
        """
        self._bucket = bucket
        self._now_ms = now_ms
        self._refuses = refuses
        self.throttle_ms = 0
        """The time in ms for which this request throttles its client."""

    def spend(self, partitions: int) -> None:
        """Charge the bucket for a change of so many partitions, before the change is decided.

        One charge may exceed the quota. Raise ApiError THROTTLING_QUOTA_EXCEEDED, and charge
        nothing, if the quota was exceeded before and this request may be refused.
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
"""The allowance of clients without a quota, and of brokers that ask on their own behalf."""


def allowance_of(quotas: Quotas, request: ForwardedRequest, now_ms: int) -> Allowance:
    """Return the allowance of a forwarded request; `now_ms` is monotonic."""
    since = REFUSED_SINCE.get(request.api_key)
    if since is None or quotas.entities is None or not request.principal:
        return UNLIMITED
    user = request.principal.partition(":")[2]
    (bucket,) = quotas.of(user, request.client_id, now_ms)
    return Allowance(bucket, now_ms, refuses=request.api_version >= since)
