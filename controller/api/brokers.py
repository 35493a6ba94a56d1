"""The requests of brokers, apart from heartbeats and fetches of metadata.

Each answer is sent once the records that it reports are committed.
"""

import logging
from typing import TYPE_CHECKING

from ...protocol.control import messages as m
from ..metadata import brokers, partitions, producer_ids, sweeps

if TYPE_CHECKING:
    from .session import Session

log = logging.getLogger(__name__)


async def register_broker(session: "Session", request: m.RegisterBroker) -> m.BrokerRegistered:
    """Register a start of a broker, and bind this connection to it."""
    controller = session.server.controller
    session.server.handovers.on_registering(request)
    is_live = controller.leases.is_live(request.broker_id)
    registered = await controller.decide(
        lambda cluster: brokers.register(cluster, request, has_live_lease=is_live)
    )
    broker = controller.cluster.image.brokers.get(request.broker_id)
    if not registered.error and broker and broker.broker_epoch == registered.broker_epoch:
        controller.leases.on_registered(broker, session.server.runtime.monotonic_ms())
        session.bind(broker.broker_id, broker.broker_epoch)
    return registered


async def alter_partitions(session: "Session", request: m.AlterPartitions) -> m.PartitionsAltered:
    """Decide on each ISR change that a leader proposes."""
    controller = session.server.controller
    return await controller.decide(lambda cluster: partitions.alter_partitions(cluster, request))


async def allocate_producer_ids(
    session: "Session", request: m.AllocateProducerIds
) -> m.ProducerIdsAllocated:
    """Reserve a block of producer ids for one broker.

    The answer waits for the commit, so that no id is given out twice.
    """
    controller = session.server.controller
    return await controller.decide(lambda cluster: producer_ids.allocate(cluster, request))


async def offline_partitions(session: "Session", request: m.OfflinePartitions) -> m.Noted:
    """Elect other leaders for the replicas of a directory that failed."""
    controller = session.server.controller
    noted = await controller.decide(lambda cluster: sweeps.lost_replicas(cluster, request))
    if not noted.error:
        count = len(request.replicas)
        log.warning("broker %d lost %d replicas with a directory", request.broker_id, count)
    return noted


async def report_log_ends(session: "Session", request: m.ReportLogEnds) -> m.Noted:
    """Keep the reported log ends of leaderless partitions in memory, for unclean elections.

    Elect a leader at once if this was the last report that an election waited for.
    """
    return await session.server.upkeep.on_reported(request)
