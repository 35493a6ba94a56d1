"""Guards: each checks a request against what its client may do, and narrows it to what is allowed.

A guard that refuses some items of a request takes them out, so that the handler never sees them,
and adds them to the response with their error. `permissions.py` says which API has which guards.
Nothing here is used unless an authorizer is configured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from ...protocol.acls import CLUSTER_NAME, Operation, Resource
from ...protocol.codec import decode, response_class
from ...protocol.errors import ErrorCode
from ...protocol.schema import shape_of
from ...protocol.types import ZERO_UUID, Buffer
from ...security.authorizer import Rights
from ..net.answer import Answer, Call
from .refusing import item_class, nothing, refused, refused_whole

DENIED: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
"""The error of what is refused, by the type of the resource."""

Amend = Callable[[Any], None]
"""Adds what was refused to a response, or takes out of it what must not be seen."""


class Need(NamedTuple):
    """An operation on one type of resource that an API asks for."""

    operation: Operation
    resource: Resource

    @property
    def error(self) -> ErrorCode:
        """The error of whatever is refused without it."""
        return DENIED[self.resource]


class Refused(NamedTuple):
    """The verdict that the request must not be handled."""

    response: object


class Narrowed(NamedTuple):
    """The verdict that a part of the request may be handled."""

    request: Any
    """The request without what is refused; None if nothing is left of it."""
    amend: Amend


Verdict = Refused | Narrowed | None
"""The result of a guard; None if the whole request is allowed."""


class Guard(Protocol):
    """Checks the requests of one API."""

    @property
    def needs(self) -> Sequence[Need]:
        """The rights that the API asks for. Of several, each allows a part of its requests."""

    def check(self, call: Call, request: Any) -> Verdict:
        """Decide about a request: refuse it, narrow it, or allow all of it."""


Name = Callable[[Call, Any], str | None]
"""Gives the name of a requested item; None if it has an id that is not known."""


def itself(call: Call, item: Any) -> str | None:
    """Return the item, which is a name."""
    return str(item)


def by_attribute(attribute: str) -> Name:
    """Return a function that gives the attribute of that name."""

    def name(call: Call, item: Any) -> str | None:
        found: str | None = getattr(item, attribute)
        return found

    return name


def by_name_or_id(call: Call, item: Any) -> str | None:
    """Return the topic's name, found by its id if the request has ids."""
    if item.topic_id == ZERO_UUID:
        return str(item.name)
    topic = call.edge.image.topics.get(item.topic_id)
    return None if topic is None else topic.name


@dataclass(frozen=True, slots=True)
class Inside:
    """The API's own handler checks its requests, because they are many or are read in place."""

    needs: tuple[Need, ...] = ()

    def check(self, call: Call, request: Any) -> Verdict:
        """Allow the request."""
        return None


@dataclass(frozen=True, slots=True)
class Whole:
    """The request needs one operation on one resource, and is refused as a whole without it."""

    need: Need
    name: str = ""
    """The field of the request with the resource's name; empty for the cluster."""
    instead: Operation | None = None
    """Another operation on the same resource that is enough."""
    parts: tuple[str, str] = ("", "")
    """The lists of the response and of the request whose items get the error one by one."""

    @property
    def needs(self) -> Sequence[Need]:
        """The operation, and the other one that is enough."""
        if self.instead is None:
            return (self.need,)
        return (self.need, Need(self.instead, self.need.resource))

    def check(self, call: Call, request: Any) -> Verdict:
        """Refuse the request unless its client has the right."""
        name = getattr(request, self.name) if self.name else CLUSTER_NAME
        rights, resource = rights_of(call), self.need.resource
        if self.instead is not None and rights.may(self.instead, resource, name):
            return None
        if demanded(call, request, self.need, name):
            return None
        parts, asked = self.parts
        every = getattr(request, asked) if asked else ()
        return Refused(refused_whole(response_to(request), self.need.error, parts, every))


@dataclass(frozen=True, slots=True)
class Each:
    """Each item of the request needs an operation on its own resource, and is refused alone."""

    need: Need
    items: str
    results: str
    name: Name
    on_cluster: Operation | None = None
    """An operation on the cluster that is enough for all items."""

    @property
    def needs(self) -> Sequence[Need]:
        """The operation, and the one on the cluster that is enough for all."""
        if self.on_cluster is None:
            return (self.need,)
        return (self.need, Need(self.on_cluster, Resource.CLUSTER))

    def check(self, call: Call, request: Any) -> Verdict:
        """Take the refused items out of the request."""
        rights, asked = rights_of(call), getattr(request, self.items)
        if not asked or may_on_cluster(rights, self.on_cluster):
            return None

        def judged(item: Any) -> ErrorCode:
            name = self.name(call, item)
            is_allowed = name is None or demanded(call, request, self.need, name)
            return ErrorCode.NONE if is_allowed else self.need.error

        return narrowed(request, self.items, judged, adding(request, self.results))


def response_to(request: Any) -> type:
    """Return the class of the response to this request."""
    return response_class(shape_of(type(request)).api_key)


def may_on_cluster(rights: Rights, operation: Operation | None) -> bool:
    """True if there is such an operation and the client may do it with the cluster."""
    return operation is not None and rights.may(operation, Resource.CLUSTER)


Add = Callable[[Any, Any, ErrorCode], None]
"""Adds to a response an item that was requested and is refused with this error."""


def adding(request: Any, results: str) -> Add:
    """Return the function that adds a refused item to a list of the request's response."""
    cls = item_class(response_to(request), results)

    def add(response: Any, item: Any, error: ErrorCode) -> None:
        getattr(response, results).append(refused(cls, item, error))

    return add


def narrowed(
    request: Any, items: str, judged: Callable[[Any], ErrorCode], add: Add
) -> Narrowed | None:
    """Take out of the request the items that are judged with an error; None if all are good."""
    asked = getattr(request, items)
    errors = [judged(item) for item in asked]
    if not any(errors):
        return None
    bad = [(item, error) for item, error in zip(asked, errors, strict=True) if error]
    good = [item for item, error in zip(asked, errors, strict=True) if not error]

    def amend(response: Any) -> None:
        for item, error in bad:
            add(response, item, error)

    return Narrowed(replace(request, **{items: good}) if good else None, amend)


@dataclass(frozen=True, slots=True)
class Shown:
    """The response lists only what its client may see."""

    need: Need
    results: str
    name: str
    """The field of a listed item with its resource's name."""
    inside: str = ""
    """The list in each item of `results` that is meant, if it is not `results` itself."""
    on_cluster: Operation | None = None

    @property
    def needs(self) -> Sequence[Need]:
        """The operation for each, and the one on the cluster that shows all."""
        if self.on_cluster is None:
            return (self.need,)
        return (self.need, Need(self.on_cluster, Resource.CLUSTER))

    def check(self, call: Call, request: Any) -> Verdict:
        """Allow the request, but have its response filtered."""
        rights = rights_of(call)
        if may_on_cluster(rights, self.on_cluster):
            return None

        def amend(response: Any) -> None:
            lists = getattr(response, self.results) if self.inside else (response,)
            name = self.inside or self.results
            for each in lists:
                shown = [
                    one
                    for one in getattr(each, name)
                    if rights.may(*self.need, getattr(one, self.name))
                ]
                setattr(each, name, shown)

        return Narrowed(request, amend)


def demanded(call: Call, request: Any, need: Need, name: str = CLUSTER_NAME) -> bool:
    """True if the client has the right; one that is missing is logged, so it must be needed."""
    return call.demand(shape_of(type(request)).api_key, *need, name)


def rights_of(call: Call) -> Rights:
    """Return the rights of the client; there is an authorizer."""
    rights = call.rights
    assert rights is not None
    return rights


class _AmendedCall(Call):
    """A call whose response is amended before it is encoded."""

    __slots__ = ("_amends",)

    def __init__(self, call: Call, amends: list[Amend]) -> None:
        super().__init__(
            call.edge, call.connection, call.version, call.correlation_id, call.client_id
        )
        self._amends = amends

    def frame(self, message: object) -> list[Buffer]:
        """Amend the response, encode it and count its errors."""
        for amend in self._amends:
            amend(message)
        return super().frame(message)

    def frame_encoded(self, cls: type, body: bytes) -> list[Buffer]:
        """Amend an encoded response of this class."""
        return self.frame(decode(cls, self.version, body))


Handle = Callable[[Call, Any], object]


def guarded(handle: Handle, guards: Sequence[Guard]) -> Handle:
    """Return a handler that passes to `handle` only what all the guards allow."""

    def checked(call: Call, request: Any) -> object:
        amends: list[Amend] = []
        for guard in guards:
            verdict = guard.check(call, request)
            if isinstance(verdict, Refused):
                return verdict.response
            if verdict is not None:
                amends.append(verdict.amend)
                if verdict.request is None:
                    return _AmendedCall(call, amends).frame(nothing(response_to(request)))
                request = verdict.request
        if not amends:
            return handle(call, request)
        amended = _AmendedCall(call, amends)
        answer = handle(amended, request)
        return answer if isinstance(answer, (Answer, list)) else amended.frame(answer)

    return checked
