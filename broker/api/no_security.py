"""APIs of SCRAM credentials and client quotas, features that this broker does not have.

The answers are those of a Kafka cluster in which no credential or quota was ever set. A request
that would set something is refused, because nothing would enforce it.
"""

from ...protocol.errors import MOST_DETAIL, ErrorCode
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
)
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ...protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ...protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ..net.answer import Call

NO_QUOTAS = "client quotas are not enforced here, so none can be set"
UNKNOWN_USER = "Attempt to describe a user credential that does not exist"
NO_SCRAM = "no listener speaks SASL here, so no credential can be set"


def describe_client_quotas(
    call: Call, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return no entries, because no entity has a quota."""
    return DescribeClientQuotasResponse(entries=[])


def alter_client_quotas(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Answer UNSUPPORTED_VERSION for each entity, because nothing would enforce its quota."""
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message=NO_QUOTAS,
                entity=entry.entity,
            )
            for entry in request.entries
        ]
    )


def describe_user_scram_credentials(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Return RESOURCE_NOT_FOUND for each named user, and no users if none is named."""
    names = dict.fromkeys(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        results=[
            DescribeUserScramCredentialsResult(
                user=name,
                error_code=ErrorCode.RESOURCE_NOT_FOUND,
                error_message=f"{UNKNOWN_USER}: {name[:MOST_DETAIL]}",
            )
            for name in names
        ]
    )


def alter_user_scram_credentials(
    call: Call, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Answer UNSUPPORTED_VERSION for each user, because nothing would check the password."""
    names = dict.fromkeys(each.name for each in request.deletions)
    names |= dict.fromkeys(each.name for each in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=name, error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=NO_SCRAM
            )
            for name in names
        ]
    )
