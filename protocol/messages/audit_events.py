"""AuditEvents, our own API: a broker tells the leader of the audit topic what it has seen."""

from typing import Final

from ..api import ApiKey
from ..schema import Int16, Int32, Int64, String, field, nested, request, response

MOST_EVENTS: Final = 50
"""The most events of one request."""
MOST_DATA_BYTES: Final = 8_192
"""The most bytes of the JSON of one event."""


@nested
class AuditEvent:
    """One event, without its place in the chain."""

    event_id: String
    """An id that no other event has; a request that is repeated has the same ones."""
    event_type: String
    time_ms: Int64
    subject: String
    data: String
    """An object in JSON."""


@request(ApiKey.AUDIT_EVENTS, versions="0", flexible="0+")
class AuditEventsRequest:
    """Append events to the audit topic, in their order."""

    events: list[AuditEvent]


@response(ApiKey.AUDIT_EVENTS)
class AuditEventsResponse:
    """NOT_LEADER_OR_FOLLOWER if another broker leads now; nothing is appended with an error."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
