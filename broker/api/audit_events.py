"""AuditEvents: the leader of the audit topic appends what another broker has seen."""

from ...protocol.messages.audit_events import AuditEventsRequest, AuditEventsResponse
from ..net.answer import Call


def handle(call: Call, request: AuditEventsRequest) -> AuditEventsResponse:
    """Append the events; they are in the log, and not committed yet, when this is answered."""
    return AuditEventsResponse(error_code=call.edge.audit_writer.take(request.events))
