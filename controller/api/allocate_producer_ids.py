"""AllocateProducerIds: a block of ids for one broker."""

from typing import TYPE_CHECKING

from ...protocol.control.messages import AllocateProducerIds, ProducerIdsAllocated
from ..metadata.producer_ids import allocate

if TYPE_CHECKING:
    from .session import Session


async def answer(session: "Session", request: AllocateProducerIds) -> ProducerIdsAllocated:
    """Reserve the block, and tell it when that is stable: a crash must not hand it out twice."""
    controller = session.server.controller
    return await controller.decide(lambda cluster: allocate(cluster, request))
