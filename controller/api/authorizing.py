"""Authorizes what brokers forward, by this controller's own access control entries.

A broker has checked each request before, by the same table, so that most refusals come early. It is
checked again here, in the step that decides about it, so that a broker that lags behind or is
faulty cannot do for a client what the entries deny.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from ...protocol.acls import CLUSTER_NAME, Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.control.image import Delta, MetadataImage
from ...protocol.control.messages import ForwardedRequest
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_topics import CreateTopicsRequest
from ...protocol.types import INTERNAL_TOPICS
from ...runtime.runtime import Runtime
from ...security.audit import Audit, Denial
from ...security.authorizer import Authorizer, Rights
from ...security.authorizer_config import AuthorizerConfig
from ...security.permissions.guards import Refused, judge, response_to
from ...security.permissions.refusing import nothing
from ...security.permissions.table import TABLE
from ...security.principal import principal_of
from ..metadata.decision import Cluster, Decision

DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Authorizing:
    """The access control entries as decisions see them, and the log of denials."""

    def __init__(self, runtime: Runtime, config: AuthorizerConfig) -> None:
        self.authorizer = Authorizer(config)
        self._audit = Audit(runtime.monotonic_ms)

    def on_metadata(self, delta: Delta, image: MetadataImage) -> None:
        """Apply the changes of entries in `delta`, which have led to `image`."""
        self.authorizer.on_metadata(delta, image)

    def decide(
        self,
        forwarded: ForwardedRequest,
        request: Any,
        cluster: Cluster,
        decide: Callable[[Any], Decision[Any]],
    ) -> Decision[Any]:
        """Decide, by `decide`, on the part of the request that is allowed, and refuse the rest.

        A request without a principal is a broker's own; raise ApiError if no broker may make it.
        """
        if not forwarded.principal:
            _check_own_name(request)
            return decide(request)
        guards = TABLE[ApiKey(forwarded.api_key)]
        verdict = judge(self._asker(forwarded, cluster.image), request, guards)
        if verdict is None:
            return decide(request)
        if isinstance(verdict, Refused):
            return Decision(verdict.response)
        if verdict.request is None:
            made: Decision[Any] = Decision(nothing(response_to(request)))
        else:
            made = decide(verdict.request)
        verdict.amend(made.answer)
        return made

    def _asker(self, forwarded: ForwardedRequest, image: MetadataImage) -> "_Asker":
        try:
            principal = principal_of(forwarded.principal)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        rights = self.authorizer.rights_of(principal, forwarded.host)
        return _Asker(forwarded.api_version, rights, image, self._audit)


class _Asker:
    """The client of a forwarded request."""

    def __init__(self, version: int, rights: Rights, image: MetadataImage, audit: Audit) -> None:
        self.version = version
        self.rights = rights
        self.image = image
        self._audit = audit

    def demand(
        self, api_key: int, operation: Operation, resource: Resource, name: str = CLUSTER_NAME
    ) -> bool:
        """True if the client may do this with the resource; a denial is logged."""
        if self.rights.may(operation, resource, name):
            return True
        self._audit.note(self.rights, Denial(operation, resource, name, api_key))
        return False


def _check_own_name(request: Any) -> None:
    """Raise ApiError unless the request creates internal topics only, for coordinators."""
    names: Sequence[str] = ()
    if isinstance(request, CreateTopicsRequest):
        names = [topic.name for topic in request.topics]
    if not names or any(name not in INTERNAL_TOPICS for name in names):
        raise ApiError(DENIED, "in its own name a broker asks for internal topics only")
