"""Describes, creates and deletes access control entries (ACLs)."""

from collections.abc import Iterable

from ...protocol.acls import ANY, Acl, AclFilter
from ...protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ...protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ...protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ..net.connection import KafkaConnection
from ..outcomes import Outcomes, error_of, raise_for
from .asking import Asking

EVERYTHING = AclFilter(ANY, None, ANY, None, None, ANY, ANY)
"""The filter that every entry matches."""


async def describe_acls(asking: Asking, wanted: AclFilter = EVERYTHING) -> list[Acl]:
    """Return the entries that match the filter, with the entries of one resource together.

    Raise ApiError (SECURITY_DISABLED) if the brokers have no authorizer. The broker that is asked
    may not have replayed the newest changes yet.
    """

    async def ask(connection: KafkaConnection) -> list[Acl]:
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )
        response: DescribeAclsResponse = await asking.request(connection, request)
        raise_for(response.error_code, response.error_message)
        return [
            Acl(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                pattern_type=resource.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission=acl.permission_type,
            )
            for resource in response.resources
            for acl in resource.acls
        ]

    return await asking.one_broker(ask)


async def create_acls(asking: Asking, acls: Iterable[Acl]) -> None:
    """Create these entries; creating one that exists already is no error.

    Raise AdminError with the entries that were refused; the others are created.
    """
    by_name = {str(acl): acl for acl in acls}

    async def ask(connection: KafkaConnection, names: list[str]) -> Outcomes[None]:
        request = CreateAclsRequest(creations=[_creation(by_name[name]) for name in names])
        response = await asking.request(connection, request)
        return {
            name: error_of(result.error_code, result.error_message)
            for name, result in zip(names, response.results, strict=True)
        }

    await asking.each(list(by_name), ask)


async def delete_acls(asking: Asking, filters: Iterable[AclFilter]) -> list[Acl]:
    """Delete every entry that matches one of the filters; return each deleted entry once.

    Raise ApiError if a filter is refused; entries that match other filters may have been deleted.
    """
    wanted = list(filters)

    async def ask(connection: KafkaConnection) -> list[Acl]:
        request = DeleteAclsRequest(filters=[_filter(each) for each in wanted])
        response: DeleteAclsResponse = await asking.request(connection, request)
        deleted: dict[Acl, None] = {}
        for result in response.filter_results:
            raise_for(result.error_code, result.error_message)
            for found in result.matching_acls:
                raise_for(found.error_code, found.error_message)
                deleted[_deleted(found)] = None
        return list(deleted)

    return await asking.one_broker(ask)


def _creation(acl: Acl) -> AclCreation:
    return AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter(wanted: AclFilter) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _deleted(found: DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        resource_type=found.resource_type,
        resource_name=found.resource_name,
        pattern_type=found.pattern_type,
        principal=found.principal,
        host=found.host,
        operation=found.operation,
        permission=found.permission_type,
    )
