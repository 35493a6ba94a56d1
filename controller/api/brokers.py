"""Decisions that brokers ask for; their heartbeats and metadata have modules of their own.

Each answer is given when what it reports is stable.
"""

import logging
from typing import TYPE_CHECKING

from ...protocol.control import messages as m
from ..metadata import brokers, partitions, producer_ids, sweeps

if TYPE_CHECKING:
    from .session import Session

log = logging.getLogger(__name__)


async def register_broker(session: "Session", request: m.RegisterBroker) -> m.BrokerRegistered:
    """Admit a start of a broker; from then on this connection is the broker's."""
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

    It is stable first, so no id is given twice.
    """
    controller = session.server.controller
    return await controller.decide(lambda cluster: producer_ids.allocate(cluster, request))


async def offline_partitions(session: "Session", request: m.OfflinePartitions) -> m.Noted:
    """Let other brokers lead the replicas of a directory that failed."""
    controller = session.server.controller
    noted = await controller.decide(lambda cluster: sweeps.lost_replicas(cluster, request))
    if not noted.error:
        count = len(request.replicas)
        log.warning("broker %d lost %d replicas with a directory", request.broker_id, count)
    return noted


async def report_log_ends(session: "Session", request: m.ReportLogEnds) -> m.Noted:
    """Keep the log ends of replicas of leaderless partitions in memory, for an unclean recovery.

    This report may be the last one that the recovery waited for.
    """
    return await session.server.upkeep.on_reported(request)
