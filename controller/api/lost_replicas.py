"""OfflinePartitions: a directory of a broker failed, and with it these replicas."""

import logging
from typing import TYPE_CHECKING

from ...protocol.control.messages import Noted, OfflinePartitions
from ..metadata.sweeps import lost_replicas

if TYPE_CHECKING:
    from .session import Session

log = logging.getLogger(__name__)


async def answer(session: "Session", request: OfflinePartitions) -> Noted:
    """Have others lead them, and answer when that is stable."""
    controller = session.server.controller
    noted = await controller.decide(lambda cluster: lost_replicas(cluster, request))
    if not noted.error:
        count = len(request.replicas)
        log.warning("broker %d lost %d replicas with a directory", request.broker_id, count)
    return noted
