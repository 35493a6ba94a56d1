"""RegisterBroker: admit a start of a broker."""

from typing import TYPE_CHECKING

from ...protocol.control.messages import BrokerRegistered, RegisterBroker
from ..metadata.brokers import register

if TYPE_CHECKING:
    from .session import Session


async def answer(session: "Session", request: RegisterBroker) -> BrokerRegistered:
    """Write the registration; from then on this connection is the broker's."""
    controller = session.server.controller
    session.server.handovers.on_registering(request)
    is_live = controller.leases.is_live(request.broker_id)
    registered = await controller.decide(
        lambda cluster: register(cluster, request, has_live_lease=is_live)
    )
    broker = controller.cluster.image.brokers.get(request.broker_id)
    if not registered.error and broker and broker.broker_epoch == registered.broker_epoch:
        controller.leases.on_registered(broker, session.server.runtime.monotonic_ms())
        session.bind(broker.broker_id, broker.broker_epoch)
    return registered
