"""WriteTrace: other brokers append trace points to partitions that are led here, as with acks=1."""

from ...protocol.errors import ErrorCode
from ...protocol.messages.write_trace import TraceBatch, WriteTraceRequest, WriteTraceResponse
from ...protocol.types import TRACE_TOPIC
from ..net.answer import Call
from ..partition.intake import NeedsOpening

ACKS_LEADER = 1


def handle(call: Call, request: WriteTraceRequest) -> WriteTraceResponse:
    """Append each batch; the answer has one error code for each."""
    return WriteTraceResponse(results=[_append(call, asked) for asked in request.batches])


def _append(call: Call, asked: TraceBatch) -> ErrorCode:
    edge = call.edge
    partition = edge.partitions.find(TRACE_TOPIC, asked.partition_index)
    if isinstance(partition, ErrorCode):
        return partition
    # A copy: the request's own bytes are of the connection's receive buffer.
    batch = memoryview(bytearray(asked.records))
    try:
        appended = partition.append_as_leader(batch, ACKS_LEADER, edge.runtime.wall_ms())
    except NeedsOpening:
        return ErrorCode.INVALID_RECORD  # Brokers do not compress trace points.
    partition.write_staged()
    return appended.error
