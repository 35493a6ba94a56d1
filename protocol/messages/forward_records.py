"""ForwardRecords, our own API: a Forwarder appends batches to partitions that a broker leads."""

from typing import Final

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, Records, Uuid, field, nested, request, response

OFFSET_FORGOTTEN: Final = -1
"""The base offset of a batch that was appended so long ago that its offset is forgotten."""
FENCED: Final = -2
"""The base offset in the answer to a fence whose batch is not there and cannot be appended now."""


@nested
class ForwardedBatch:
    """One batch for one partition; or only its name, to prevent that it is appended."""

    topic_id: Uuid
    partition_index: Int32
    producer_id: Int64
    base_sequence: Int32
    is_fence: Bool = field(default=False)
    """True to have no batch of this producer id appended from now on, unless this one is there."""
    records: Records | None = field(default=None)


@request(ApiKey.FORWARD_RECORDS, versions="0", flexible="0+")
class ForwardRecordsRequest:
    """Append batches, each as with acks=all."""

    batches: list[ForwardedBatch]


@nested
class ForwardedResult:
    """The outcome of one batch."""

    error_code: Int16 = field(default=0)
    base_offset: Int64 = field(default=-1)
    """The offset of the batch's first record, or OFFSET_FORGOTTEN or FENCED."""


@response(ApiKey.FORWARD_RECORDS)
class ForwardRecordsResponse:
    """One result for each batch of the request, in its order."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    """An error of the whole request; then there are no results."""
    batches: list[ForwardedResult] = field(default=[])
