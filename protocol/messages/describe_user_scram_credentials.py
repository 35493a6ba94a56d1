"""DescribeUserScramCredentials: list which SCRAM credentials users have (KIP-554)."""

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response


@nested
class UserName:
    """One user."""

    name: String


@request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    """Ask for the credentials of some users, or of all."""

    users: list[UserName] | None
    """The users; None or an empty list means all users."""


@nested
class CredentialInfo:
    """One credential, without its secret."""

    mechanism: Int8
    iterations: Int32


@nested
class DescribeUserScramCredentialsResult:
    """The credentials of one user."""

    user: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    credential_infos: list[CredentialInfo] = field(default=[])


@response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)
class DescribeUserScramCredentialsResponse:
    """A result for each user."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    results: list[DescribeUserScramCredentialsResult]
