"""BrokerHeartbeat: fence, unfence, shut down, as the broker wants and the table allows."""

from typing import TYPE_CHECKING

from ...protocol.control.messages import BrokerHeartbeat, HeartbeatAnswer
from ...protocol.control.records import BrokerChangeRecord
from ..metadata.brokers import HeartbeatContext, heartbeat
from ..metadata.decision import Cluster, Decision

if TYPE_CHECKING:
    from .session import Session


async def answer(session: "Session", request: BrokerHeartbeat) -> HeartbeatAnswer:
    """Note how far the broker has come, then decide."""
    controller = session.server.controller
    controller.check_active()
    broker_id = request.broker_id
    broker = controller.cluster.image.brokers.get(broker_id)
    if broker is not None and broker.broker_epoch == request.broker_epoch:
        # Also where no lease is known: the connection may have ended between the registration's
        # commit and its answer.
        controller.leases.on_registered(broker, session.server.runtime.monotonic_ms())
        session.bind(broker_id, request.broker_epoch)
        controller.leases[broker_id].metadata_offset = request.metadata_offset

    def decide(cluster: Cluster) -> Decision[HeartbeatAnswer]:
        others = [each.broker_id for each in cluster.active_brokers()]
        context = HeartbeatContext(
            shutdown_offset=controller.leases.shutdown_offset(broker_id),
            applied_by_others=controller.leases.applied_by_others(
                [each for each in others if each != broker_id]
            ),
        )
        decision = heartbeat(cluster, request, context)
        if any(
            isinstance(record, BrokerChangeRecord) and record.in_controlled_shutdown
            for record in decision.records
        ):
            last = cluster.next_offset + len(decision.records) - 1
            controller.leases[broker_id].shutdown_offset = last
        return decision

    return await controller.decide(decide)
