"""CreateAcls: add ACL entries, each of which allows or denies a principal an operation."""

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response
from .describe_acls import LITERAL


@nested
class AclCreation:
    """One entry to create."""

    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = field(default=LITERAL)
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@request(ApiKey.CREATE_ACLS, versions="1-3", flexible="2+")
class CreateAclsRequest:
    """Entries to create."""

    creations: list[AclCreation]


@nested
class AclCreationResult:
    """The result for one entry."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@response(ApiKey.CREATE_ACLS)
class CreateAclsResponse:
    """A result for each entry, in the order of the request."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AclCreationResult]
