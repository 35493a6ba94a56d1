"""APIs of client quotas, a feature that this broker does not have.

The answers are those of a Kafka cluster in which no quota was ever set. A request that would set
one is refused, because nothing would enforce it.
"""

from ...protocol.errors import ErrorCode
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
)
from ...protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ..net.answer import Call

NO_QUOTAS = "client quotas are not enforced here, so none can be set"


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
