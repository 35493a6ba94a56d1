"""Blocks of producer ids: each id is given to one broker, once in the life of the cluster."""

from typing import Final

from ...protocol.control.messages import AllocateProducerIds, ProducerIdsAllocated
from ...protocol.control.records import ProducerIdsRecord
from ...protocol.errors import ApiError, ErrorCode
from .decision import Cluster, Decision

BLOCK_SIZE: Final = 1000


def allocate(cluster: Cluster, request: AllocateProducerIds) -> Decision[ProducerIdsAllocated]:
    """Reserve the next block of producer ids. If the answer is lost, the block stays unused."""
    try:
        cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
    except ApiError as error:
        return Decision(ProducerIdsAllocated(error.code, error.detail))
    first = cluster.image.next_producer_id
    record = ProducerIdsRecord(request.broker_id, request.broker_epoch, first + BLOCK_SIZE)
    answer = ProducerIdsAllocated(ErrorCode.NONE, first_id=first, count=BLOCK_SIZE)
    return Decision(answer, (record,))
