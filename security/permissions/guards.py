"""Guards: each checks a request against what its client may do, and narrows it to what is allowed.

A guard that refuses some items of a request takes them out, so that the handler never sees them,
and adds them to the response with their error. `table.py` says which API has which guards.
Nothing here is used unless an authorizer is configured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from ...protocol.acls import CLUSTER_NAME, Operation, Resource
from ...protocol.codec import response_class
from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.schema import shape_of
from ...protocol.types import ZERO_UUID
from ..authorizer import Rights
from .refusing import item_class, refused, refused_whole

DENIED: Final = {
    Resource.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Resource.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Resource.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Resource.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Resource.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    Resource.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error of what is refused, by the type of the resource."""

Amend = Callable[[Any], None]
"""Adds what was refused to a response, or takes out of it what must not be seen."""


class Asker(Protocol):
    """The client of one request, and the facts by which guards judge it."""

    @property
    def version(self) -> int:
        """The version of the request."""

    @property
    def rights(self) -> Rights | None:
        """The client's rights; None if there is no authorizer, and then no guard is asked."""

    @property
    def image(self) -> MetadataImage:
        """The metadata as this node knows it: guards look up names of topics by their ids."""

    def demand(
        self, api_key: int, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
    ) -> bool:
        """True if the client may do this with the resource; a denial is logged."""


class Need(NamedTuple):
    """An operation on one type of resource that an API asks for."""

    operation: Operation
    resource: Resource

    @property
    def error(self) -> ErrorCode:
        """The error of a request or an item that is refused without this right."""
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
        """The rights that the API asks for; with several, the request decides which of them."""

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Decide about a request: refuse it, narrow it, or allow all of it."""


Name = Callable[[Asker, Any], str | None]
"""Gives the name of a requested item; None if it has an id that is not known."""


def itself(asker: Asker, item: Any) -> str | None:
    """Return the item, which is a name."""
    return str(item)


def by_attribute(attribute: str) -> Name:
    """Return a function that reads an item's name from this attribute."""

    def name(asker: Asker, item: Any) -> str | None:
        found: str | None = getattr(item, attribute)
        return found

    return name


def by_name_or_id(asker: Asker, item: Any) -> str | None:
    """Return the topic's name, found by its id if the request has ids."""
    if item.topic_id == ZERO_UUID:
        return str(item.name)
    topic = asker.image.topics.get(item.topic_id)
    return None if topic is None else topic.name


@dataclass(frozen=True, slots=True)
class Inside:
    """The API's own handler checks its requests, because they are many or are read in place."""

    needs: tuple[Need, ...] = ()

    def check(self, asker: Asker, request: Any) -> Verdict:
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

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Refuse the request unless its client has the right."""
        name = getattr(request, self.name) if self.name else CLUSTER_NAME
        rights, resource = rights_of(asker), self.need.resource
        if self.instead is not None and rights.may(self.instead, resource, name):
            return None
        if demanded(asker, request, self.need, name):
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
        return _with_cluster(self.need, self.on_cluster)

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Take the refused items out of the request."""
        rights, asked = rights_of(asker), getattr(request, self.items)
        if not asked or may_on_cluster(rights, self.on_cluster):
            return None

        def judged(item: Any) -> ErrorCode:
            name = self.name(asker, item)
            is_allowed = name is None or demanded(asker, request, self.need, name)
            return ErrorCode.NONE if is_allowed else self.need.error

        return narrowed(request, self.items, judged, adding(request, self.results))


def response_to(request: Any) -> type:
    """Return the class of the response to this request."""
    return response_class(shape_of(type(request)).api_key)


def _with_cluster(need: Need, on_cluster: Operation | None) -> Sequence[Need]:
    """Return a need, and the operation on the cluster that is enough instead, if there is one."""
    return (need,) if on_cluster is None else (need, Need(on_cluster, Resource.CLUSTER))


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
    """The list in each item of `results` that is filtered; empty if `results` itself is."""
    on_cluster: Operation | None = None

    @property
    def needs(self) -> Sequence[Need]:
        """The operation for each, and the one on the cluster that shows all."""
        return _with_cluster(self.need, self.on_cluster)

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Allow the request, but have its response filtered."""
        rights = rights_of(asker)
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


def demanded(asker: Asker, request: Any, need: Need, name: str = CLUSTER_NAME) -> bool:
    """True if the client has the right. A missing right is logged, so ask only if it is needed."""
    return asker.demand(shape_of(type(request)).api_key, *need, name)


def rights_of(asker: Asker) -> Rights:
    """Return the rights of the client; the caller knows that there is an authorizer."""
    rights = asker.rights
    assert rights is not None
    return rights


def judge(asker: Asker, request: Any, guards: Sequence[Guard]) -> Verdict:
    """Return the verdict of all the guards; each sees what those before it have left."""
    amends: list[Amend] = []
    for guard in guards:
        verdict = guard.check(asker, request)
        if isinstance(verdict, Refused):
            return verdict
        if verdict is not None:
            amends.append(verdict.amend)
            request = verdict.request
            if request is None:
                break
    if not amends:
        return None

    def amend(response: Any) -> None:
        for each in amends:
            each(response)

    return Narrowed(request, amend)
