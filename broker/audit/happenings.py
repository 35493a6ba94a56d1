"""Events that no metadata record tells: denials, failed logins, changes by a broker itself.

Values only. They are told as well as can be: a broker that dies takes with it what it has not told.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from ...protocol.acls import Resource
from ...protocol.api import ApiKey
from ...protocol.audit import Event
from ...protocol.errors import ErrorCode
from ...protocol.messages.audit_events import MOST_DATA_BYTES, MOST_EVENTS, AuditEvent
from ...security.audit import Denial
from ...security.authorizer import Rights

DENIAL: Final = "minikafka.audit.denial"
LOGIN: Final = "minikafka.audit.login"
ACTION: Final = "minikafka.audit.action"
"""Types of events: a denied operation, a failed login, a change that no metadata record tells."""
TYPES: Final = (DENIAL, LOGIN, ACTION)
TEXT_MAX: Final = 200
"""The most characters of a text that a client chose."""
CHANGES_MAX: Final = 30
"""The most changes that one event tells."""
CODES: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


class Happening(NamedTuple):
    """One event before it has an id and a time."""

    type: str
    subject: str
    data: dict[str, Any]


class Change(NamedTuple):
    """One thing that a request changed."""

    resource: str
    aspect: str
    before: str | None
    after: str | None


def denied(rights: Rights, denial: Denial, repeated: int) -> Happening:
    """Return the event of a denial, which came `repeated` times more since it was last told."""
    resource = f"{denial.resource.name.lower()}/{_short(denial.name)}"
    code = CODES.get(denial.resource, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    data: dict[str, Any] = {
        "principal": _short(str(rights.principal)),
        "host": rights.host,
        "action": name_of(denial.api_key),
        "resource": resource,
        "operation": denial.operation.name,
        "result": "denied",
        "error_code": int(code),
    }
    if repeated:
        data["repeated"] = repeated
    return Happening(DENIAL, resource, data)


def login_failed(host: str, listener: str, why: str) -> Happening:
    """Return the event of a login that failed; nobody has proved to be anybody."""
    data = {
        "principal": None,
        "host": host,
        "action": name_of(ApiKey.SASL_AUTHENTICATE),
        "resource": f"listener/{listener}",
        "result": "failed",
        "reason": _short(why),
        "error_code": int(ErrorCode.SASL_AUTHENTICATION_FAILED),
    }
    return Happening(LOGIN, f"listener/{listener}", data)


def acted(who: Mapping[str, str], api_key: int, changes: Sequence[Change]) -> Happening | None:
    """Return the event of a request that a broker carried out; None if it changed nothing.

    `who` has the client's principal, host and client id.
    """
    if not changes:
        return None
    data: dict[str, Any] = {
        **{name: _short(text) for name, text in who.items()},
        "action": name_of(api_key),
        "result": "changed",
        "error_code": 0,
        "changes": [
            {
                "resource": _short(each.resource),
                "aspect": each.aspect,
                "before": each.before,
                "after": each.after,
            }
            for each in changes[:CHANGES_MAX]
        ],
    }
    if len(changes) > CHANGES_MAX:
        data["left_out"] = len(changes) - CHANGES_MAX
    return Happening(ACTION, _short(changes[0].resource), data)


def name_of(api_key: int) -> str:
    """Return the name of an API as Kafka writes it, such as DeleteTopics."""
    return ApiKey(api_key).name.title().replace("_", "")


def message_of(happening: Happening, event_id: str, now_ms: int) -> AuditEvent:
    """Return what is sent to the leader; details go where they would be too large."""
    data = _json(happening.data)
    if len(data.encode()) > MOST_DATA_BYTES:
        changes = happening.data.get("changes", ())
        left_out = len(changes) + happening.data.get("left_out", 0)
        data = _json({**happening.data, "changes": [], "left_out": left_out})
    return AuditEvent(
        event_id=event_id,
        event_type=happening.type,
        time_ms=now_ms,
        subject=happening.subject,
        data=data,
    )


def events_of(messages: Sequence[AuditEvent]) -> list[Event] | None:
    """Return the events of a request; None if one of them is not what a broker sends."""
    if len(messages) > MOST_EVENTS:
        return None
    events: list[Event] = []
    for each in messages:
        texts = (each.event_id, each.subject)
        is_short = all(len(text) <= 2 * TEXT_MAX for text in texts)
        if not is_short or each.event_type not in TYPES or len(each.data) > MOST_DATA_BYTES:
            return None
        try:
            data = json.loads(each.data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(data, dict):
            return None
        events.append(Event(each.event_id, each.event_type, each.time_ms, each.subject, data))
    return events


def _json(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def _short(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"
