"""DeleteAcls: delete the ACL entries that match filters."""

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response
from .describe_acls import LITERAL


@nested
class DeleteAclsFilter:
    """A filter of entries; an entry matches if it agrees in every field. Null matches any value."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field(default=LITERAL)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@request(ApiKey.DELETE_ACLS, versions="1-3", flexible="2+")
class DeleteAclsRequest:
    """The filters; every entry that matches one of them is deleted."""

    filters: list[DeleteAclsFilter]


@nested
class DeleteAclsMatchingAcl:
    """One entry that matched a filter."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=LITERAL)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@nested
class DeleteAclsFilterResult:
    """The entries that one filter matched."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = field(default=[])


@response(ApiKey.DELETE_ACLS)
class DeleteAclsResponse:
    """A result for each filter, in the order of the request."""

    throttle_time_ms: Int32 = field(default=0)
    filter_results: list[DeleteAclsFilterResult]
