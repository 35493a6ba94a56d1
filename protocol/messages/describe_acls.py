"""DescribeAcls: list the ACL entries that match a filter."""

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response

LITERAL = 3
"""The pattern type of an entry whose resource is given by its full name."""


@request(ApiKey.DESCRIBE_ACLS, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    """Ask for the entries that match a filter in every field; a null field matches any value."""

    resource_type_filter: Int8
    resource_name_filter: String | None
    pattern_type_filter: Int8 = field(default=LITERAL)
    principal_filter: String | None
    host_filter: String | None
    operation: Int8
    permission_type: Int8


@nested
class AclDescription:
    """One entry of a resource."""

    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@nested
class DescribeAclsResource:
    """A resource and its entries."""

    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = field(default=LITERAL)
    acls: list[AclDescription]


@response(ApiKey.DESCRIBE_ACLS)
class DescribeAclsResponse:
    """The matching entries, grouped by resource."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    resources: list[DescribeAclsResource] = field(default=[])
