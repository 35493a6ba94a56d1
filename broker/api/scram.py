"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554).

Descriptions are read from this broker's metadata and reveal no secret. The controller makes
changes.
"""

from ...protocol.api import ApiKey
from ...protocol.errors import MOST_DETAIL, ErrorCode
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ...protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ..net.answer import Answer, Call
from .forwarded import Forwarded

UNKNOWN = "Attempt to describe a user credential that does not exist"
TWICE = "Cannot describe SCRAM credentials for the same user twice in a single request"


def describe(
    call: Call, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Answer with mechanism and iterations of the named users' credentials, or of all."""
    known: dict[str, list[CredentialInfo]] = {}
    for (mechanism, name), credential in call.edge.image.scram.items():
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        known.setdefault(name, []).append(info)
    asked = [user.name for user in request.users or ()]
    times: dict[str, int] = {}
    for name in asked or known:
        times[name] = times.get(name, 0) + 1
    return DescribeUserScramCredentialsResponse(
        results=[_result(name, known.get(name), count) for name, count in times.items()]
    )


def _result(
    name: str, infos: list[CredentialInfo] | None, count: int
) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=name)
    if count > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"{TWICE}: {name[:MOST_DETAIL]}"
    elif infos is None:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"{UNKNOWN}: {name[:MOST_DETAIL]}"
    else:
        result.credential_infos = infos
    return result


def alter(call: Call, request: AlterUserScramCredentialsRequest) -> Answer:
    """Forward the request to the controller."""
    return Forwarded(call, request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, _none_altered)


def _none_altered(
    request: AlterUserScramCredentialsRequest, error: ErrorCode, why: str
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(each.name for each in request.deletions)
    names |= dict.fromkeys(each.name for each in request.upsertions)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=why)
            for name in names
        ]
    )
