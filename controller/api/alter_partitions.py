"""AlterPartitions: ISR changes that leaders propose."""

from typing import TYPE_CHECKING

from ...protocol.control.messages import AlterPartitions, PartitionsAltered
from ..metadata.partitions import alter_partitions

if TYPE_CHECKING:
    from .session import Session


async def answer(session: "Session", request: AlterPartitions) -> PartitionsAltered:
    """Decide on each of them, and answer when the changes are stable."""
    controller = session.server.controller
    return await controller.decide(lambda cluster: alter_partitions(cluster, request))
