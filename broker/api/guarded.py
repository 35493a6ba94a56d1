"""Runs the guards of an API before its handler, and adds their refusals to the response.

Nothing here is used unless an authorizer is configured.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ...protocol.codec import decode
from ...protocol.types import Buffer
from ...security.permissions.guards import Amend, Guard, Refused, judge, response_to
from ...security.permissions.refusing import nothing
from ..net.answer import Answer, Call

Handle = Callable[[Call, Any], object]


def guarded(handle: Handle, guards: Sequence[Guard]) -> Handle:
    """Return a handler that passes to `handle` only the items that all the guards allow."""

    def checked(call: Call, request: Any) -> object:
        verdict = judge(call, request, guards)
        if verdict is None:
            return handle(call, request)
        if isinstance(verdict, Refused):
            return verdict.response
        amended = _AmendedCall(call, verdict.amend)
        if verdict.request is None:
            return amended.frame(nothing(response_to(request)))
        answer = handle(amended, verdict.request)
        return answer if isinstance(answer, (Answer, list)) else amended.frame(answer)

    return checked


class _AmendedCall(Call):
    """A call whose response is amended before it is encoded."""

    __slots__ = ("_amend",)

    def __init__(self, call: Call, amend: Amend) -> None:
        super().__init__(
            call.edge, call.connection, call.version, call.correlation_id, call.client_id
        )
        self._amend = amend

    def frame(self, message: object) -> list[Buffer]:
        """Amend the response, encode it and count its errors."""
        self._amend(message)
        return super().frame(message)

    def frame_encoded(self, cls: type, body: bytes) -> list[Buffer]:
        """Amend an encoded response of this class."""
        return self.frame(decode(cls, self.version, body))
