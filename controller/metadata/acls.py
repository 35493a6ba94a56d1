"""Access control entries: which are created and which are deleted (CreateAcls, DeleteAcls).

Each entry and each filter of a request gets its own result. Creating an entry that exists already
succeeds and writes nothing.
"""

from collections.abc import Callable

from ...protocol.acls import Acl, AclFilter, check_new
from ...protocol.control.image import MetadataImage
from ...protocol.control.records import (
    AccessControlEntryRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ...protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from .decision import DECISION_RECORDS_MAX, Cluster, Decision


def create_acls(
    cluster: Cluster, request: CreateAclsRequest, id_of: Callable[[str], bytes]
) -> Decision[CreateAclsResponse]:
    """Create the valid entries. `id_of` returns an entry's id, the same if a request is repeated.

    Raise ApiError INVALID_REQUEST if there are more than `DECISION_RECORDS_MAX` new entries.
    """
    known = dict.fromkeys(cluster.image.acls.values())
    records: list[MetadataRecord] = []
    results: list[AclCreationResult] = []
    for creation in request.creations:
        acl = _created(creation)
        try:
            check_new(acl)
        except ApiError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.detail))
            continue
        results.append(AclCreationResult())
        if acl not in known:
            known[acl] = None
            records.append(_record(id_of(repr(acl)), acl))
    _check_size(len(records), "create")
    return Decision(CreateAclsResponse(results=results), records)


def delete_acls(cluster: Cluster, request: DeleteAclsRequest) -> Decision[DeleteAclsResponse]:
    """Delete the entries that match a filter; each filter's result lists all that it matches.

    Raise ApiError INVALID_REQUEST if more than `DECISION_RECORDS_MAX` entries match.
    """
    records: dict[bytes, MetadataRecord] = {}
    results: list[DeleteAclsFilterResult] = []
    for asked in request.filters:
        wanted = _filter(asked)
        try:
            wanted.check()
        except ApiError as error:
            results.append(
                DeleteAclsFilterResult(error_code=error.code, error_message=error.detail)
            )
            continue
        found = _found(cluster.image, wanted)
        records |= {acl_id: RemoveAccessControlEntryRecord(acl_id) for acl_id in found}
        results.append(DeleteAclsFilterResult(matching_acls=[_told(a) for a in found.values()]))
        _check_size(len(records), "delete")
    return Decision(DeleteAclsResponse(filter_results=results), tuple(records.values()))


def _check_size(count: int, what: str) -> None:
    if count > DECISION_RECORDS_MAX:
        why = f"{count} ACLs in one request: {what} at most {DECISION_RECORDS_MAX}"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)


def _found(image: MetadataImage, wanted: AclFilter) -> dict[bytes, Acl]:
    return {acl_id: acl for acl_id, acl in image.acls.items() if wanted.matches(acl)}


def _created(creation: AclCreation) -> Acl:
    return Acl(
        resource_type=creation.resource_type,
        resource_name=creation.resource_name,
        pattern_type=creation.resource_pattern_type,
        principal=creation.principal,
        host=creation.host,
        operation=creation.operation,
        permission=creation.permission_type,
    )


def _record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        acl_id,
        acl.resource_type,
        acl.resource_name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )


def _filter(asked: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        resource_type=asked.resource_type_filter,
        resource_name=asked.resource_name_filter,
        pattern_type=asked.pattern_type_filter,
        principal=asked.principal_filter,
        host=asked.host_filter,
        operation=asked.operation,
        permission=asked.permission_type,
    )


def _told(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
