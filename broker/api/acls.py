"""DescribeAcls, CreateAcls and DeleteAcls: access control entries, if an authorizer enforces them.

Entries are described from this broker's own image. The controller creates and deletes them; other
brokers enforce a change when they have replayed it.
"""

from ...protocol.acls import Acl, AclFilter
from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ...protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from ..net.answer import Answer, Call
from .forwarded import Forwarded

NO_AUTHORIZER = "No Authorizer is configured: everybody may do everything, and no entry is kept."


def describe_acls(call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """List the entries that match the filter, by resource.

    Answer SECURITY_DISABLED without an authorizer.
    """
    if call.edge.authorizer is None:
        error = ErrorCode.SECURITY_DISABLED
        return DescribeAclsResponse(error_code=error, error_message=NO_AUTHORIZER)
    wanted = AclFilter(
        resource_type=request.resource_type_filter,
        resource_name=request.resource_name_filter,
        pattern_type=request.pattern_type_filter,
        principal=request.principal_filter,
        host=request.host_filter,
        operation=request.operation,
        permission=request.permission_type,
    )
    try:
        wanted.check()
    except ApiError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.detail)
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for acl in call.edge.image.acls.values():
        if wanted.matches(acl):
            _add(resources, acl)
    return DescribeAclsResponse(resources=list(resources.values()))


def _add(resources: dict[tuple[int, str, int], DescribeAclsResource], acl: Acl) -> None:
    key = acl.resource_type, acl.resource_name, acl.pattern_type
    resource = resources.get(key)
    if resource is None:
        resource = resources[key] = DescribeAclsResource(
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            acls=[],
        )
    resource.acls.append(
        AclDescription(
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )
    )


def create_acls(call: Call, request: CreateAclsRequest) -> CreateAclsResponse | Answer:
    """Forward the request; without an authorizer to enforce them, refuse each entry."""
    if call.edge.authorizer is None:
        return _none_created(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return Forwarded(call, request, ApiKey.CREATE_ACLS, _none_created)


def delete_acls(call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse | Answer:
    """Forward the request; without an authorizer refuse each filter."""
    if call.edge.authorizer is None:
        return _none_deleted(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    return Forwarded(call, request, ApiKey.DELETE_ACLS, _none_deleted)


def _none_created(request: CreateAclsRequest, error: ErrorCode, why: str) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=error, error_message=why)
    return CreateAclsResponse(results=[refused] * len(request.creations))


def _none_deleted(request: DeleteAclsRequest, error: ErrorCode, why: str) -> DeleteAclsResponse:
    refused = DeleteAclsFilterResult(error_code=error, error_message=why)
    return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
