"""Tells the tracer of batches that clients have produced, if their offsets are sampled."""

from ...protocol.records.batch_header import BatchHeader
from ...protocol.types import Buffer
from ..net.answer import Call
from ..partition.partition import Partition
from ..partition.requests import Appended
from ..tracing.tracer import Sender


def sender_of(call: Call, acks: int) -> Sender:
    """Return who sends a batch."""
    return Sender(call.client_id, call.connection.host, call.principal, acks)


def note_append(partition: Partition, batch: Buffer, appended: Appended, sender: Sender) -> None:
    """Have a batch watched that is staged now, unless it is refused or repeats another."""
    tracer = partition.host.tracer
    if tracer is None or appended.error or appended.base_offset < 0:
        return
    header, metadata = BatchHeader(batch), partition.role.metadata
    # A batch that is there already is not stamped again.
    if (header.base_offset, header.leader_epoch) == (appended.base_offset, metadata.leader_epoch):
        tracer.on_appended(partition, batch, header, metadata.isr, sender)
