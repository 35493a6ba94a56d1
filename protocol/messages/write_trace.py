"""WriteTrace, our own API: a broker writes trace points to partitions that another one leads."""

from ..api import ApiKey
from ..schema import Int16, Int32, Records, field, nested, request, response


@nested
class TraceBatch:
    """One batch for one partition of the topic of trace points."""

    partition_index: Int32
    records: Records


@request(ApiKey.WRITE_TRACE, versions="0", flexible="0+")
class WriteTraceRequest:
    """Append batches, each as with acks=1."""

    batches: list[TraceBatch]


@response(ApiKey.WRITE_TRACE)
class WriteTraceResponse:
    """One error code for each batch of the request, in its order."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    """An error of the whole request; then there are no results."""
    results: list[Int16] = field(default=[])
