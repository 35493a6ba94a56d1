"""Tells the audit of changes that a broker carries out itself."""

from collections.abc import Sequence

from ...protocol.api import ApiKey
from ..audit.happenings import Change, acted
from ..net.answer import Call


def tell(call: Call, api_key: ApiKey, changes: Sequence[Change]) -> None:
    """Have the audit tell of what a request has changed, if auditing is on."""
    feed = call.edge.audit_feed
    if feed.is_on and changes:
        who = {
            "principal": str(call.principal),
            "client": call.client_id or "",
            "host": call.connection.host,
        }
        feed.note(acted(who, api_key, changes))
