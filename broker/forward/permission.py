"""Says in whose name records are forwarded: to which topics a principal may write now."""

from collections.abc import Callable

from ...protocol.acls import Operation, Resource
from ...security.authorizer import Authorizer
from ...security.principal import principal_of

NO_HOST = ""
"""The host of one who is not connected: only entries for all hosts hold for it."""


def writer_of(authorizer: Authorizer | None, principal: str) -> Callable[[str], bool]:
    """Return a function that says whether a principal may write to a topic.

    It remembers what it has said. All is allowed to an empty principal, and without an authorizer.
    """
    if authorizer is None or not principal:
        return lambda _: True
    rights = authorizer.rights_of(principal_of(principal), NO_HOST)
    return lambda topic: rights.may(Operation.WRITE, Resource.TOPIC, topic)
