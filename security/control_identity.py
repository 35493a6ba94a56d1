"""Rules for the names in certificates of the control plane, which prove who a peer is.

Pure. The name that the mapping rules make of a certificate's subject is `broker-7` for broker 7 and
`controller-101` for controller 101. Any other name is an operator's, who may ask controllers with a
tool, if he is a super user.
"""

import re
from typing import Any, Final

from ..protocol.control.messages import ROLE_BROKER, ROLE_CONTROLLER, ROLE_TOOL, Hello
from .principal import user

_KINDS: Final = {ROLE_BROKER: "broker", ROLE_CONTROLLER: "controller"}
_NODE: Final = re.compile(r"(broker|controller)-(0|[1-9][0-9]{0,9})", re.ASCII)
_SENDERS: Final = ("candidate", "leader", "replica")


def name_of_node(role: int, node_id: int) -> str:
    """Return the name that the certificate of a broker or a controller must have."""
    return f"{_KINDS[role]}-{node_id}"


def is_node(name: str) -> bool:
    """True if a certificate of this name belongs to a broker or a controller."""
    return _NODE.fullmatch(name) is not None


def is_controller(name: str) -> bool:
    """True if a certificate of this name belongs to a controller."""
    return is_node(name) and name.startswith(_KINDS[ROLE_CONTROLLER])


def why_no_greeting(name: str, greeting: Hello, super_users: tuple[str, ...]) -> str | None:
    """Return why a certificate of this name does not permit this Hello; None if it does."""
    if greeting.role == ROLE_TOOL:
        if is_node(name) or str(user(name)) in super_users:
            return None
        return f"a tool's certificate must be a node's or a super user's: {user(name)} is neither"
    if greeting.role not in _KINDS:
        return f"there is no role {greeting.role}"
    due = name_of_node(greeting.role, greeting.node_id)
    return None if name == due else f"its certificate is that of {name!r}, not of {due!r}"


def why_not_for(node_id: int, request: Any) -> str | None:
    """Return why this node may not send the request: another is its sender. None if it may."""
    sender = sender_of(request)
    if sender is None or sender == node_id:
        return None
    return f"node {node_id} cannot send {type(request).__name__} for node {sender}"


def sender_of(request: Any) -> int | None:
    """Return the id of the node that a request says it comes from; None if it says nothing."""
    for field in _SENDERS:
        voter = getattr(request, field, None)
        if voter is not None:
            return int(voter.voter_id)
    broker_id: int | None = getattr(request, "broker_id", None)
    return broker_id
