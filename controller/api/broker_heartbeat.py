"""BrokerHeartbeat: fences, unfences or shuts down a broker as it asks, once that is possible."""

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...protocol.control.messages import BrokerHeartbeat, HeartbeatAnswer
from ..metadata.brokers import HeartbeatContext, heartbeat
from ..metadata.decision import Cluster, Decision

if TYPE_CHECKING:
    from ..driver import Controller
    from ..leases import Lease
    from .session import Session

CATCH_UP_WITHIN_MS: Final = 5_000
"""Milliseconds for which a broker that shuts down still leads partitions that no other replica can
lead yet."""


async def answer(session: "Session", request: BrokerHeartbeat) -> HeartbeatAnswer:
    """Note the metadata offset that the broker has applied, then decide on the state it wants."""
    controller, handovers = session.server.controller, session.server.handovers
    controller.check_active()
    broker_id = request.broker_id
    broker = controller.cluster.image.brokers.get(broker_id)
    if broker is not None and broker.broker_epoch == request.broker_epoch:
        # Even if no lease is known, because the connection may have ended between the
        # registration's commit and its answer.
        controller.leases.on_registered(broker, session.server.runtime.monotonic_ms())
        session.bind(broker_id, request.broker_epoch)
        lease = controller.leases[broker_id]
        lease.metadata_offset = request.metadata_offset
        if request.want_shutdown:
            note_wish_to_leave(controller, lease)
        if request.want_shutdown or request.want_fence:
            handovers.on_given_up(broker_id)
        else:
            handovers.on_applied(broker_id, request.metadata_offset)

    def decide(cluster: Cluster) -> Decision[HeartbeatAnswer]:
        others = [
            each.broker_id for each in cluster.active_brokers() if each.broker_id != broker_id
        ]
        lease, context = controller.leases.find(broker_id), HeartbeatContext()
        if lease is not None:
            since_ms = controller.runtime.monotonic_ms() - CATCH_UP_WITHIN_MS
            context = HeartbeatContext(
                shutdown_offset=lease.shutdown_offset,
                applied_by_others=controller.leases.applied_by_others(others),
                may_wait=lease.leaving_since_ms > since_ms,
            )
        decision = heartbeat(cluster, request, context)
        if decision.records and request.want_shutdown and not decision.answer.should_shut_down:
            last = cluster.next_offset + len(decision.records) - 1
            controller.leases[broker_id].shutdown_offset = last
        return decision

    decided = await controller.decide(decide)
    decided = replace(decided, clock_ahead_ms=_clock_ahead_ms(session, request))
    if request.want_shutdown or request.want_fence:
        return handovers.refused(decided)
    return handovers.granted(request, decided)


def _clock_ahead_ms(session: "Session", request: BrokerHeartbeat) -> int | None:
    """Note the broker's wall clock, and return how far it is ahead of the others'."""
    server = session.server
    if request.wall_ms >= 0:
        server.clocks.note(request.broker_id, request.wall_ms, server.runtime.wall_ms())
    living = [each.broker_id for each in server.controller.cluster.active_brokers()]
    return server.clocks.ahead_ms(request.broker_id, living)


def note_wish_to_leave(controller: "Controller", lease: "Lease") -> None:
    """Note when the broker first asked this controller for its shutdown.

    It may have asked another controller before.
    """
    if lease.leaving_since_ms < 0:
        lease.leaving_since_ms = controller.runtime.monotonic_ms()
        broker = controller.cluster.image.brokers[lease.broker_id]
        if broker.in_controlled_shutdown:
            # The records that moved leaders are somewhere in the log, so all of it must be known.
            lease.shutdown_offset = controller.cluster.image.offset
