"""AlterUserScramCredentials: set or delete the passwords of users (KIP-554)."""

from ..api import ApiKey
from ..schema import Bytes, Int8, Int16, Int32, String, field, nested, request, response


@nested
class ScramCredentialDeletion:
    """A credential to delete."""

    name: String
    mechanism: Int8


@nested
class ScramCredentialUpsertion:
    """A credential to set; the password is salted and hashed."""

    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    """Credentials to delete and to set."""

    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@nested
class AlterUserScramCredentialsResult:
    """The result for one user."""

    user: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
class AlterUserScramCredentialsResponse:
    """A result for each user."""

    throttle_time_ms: Int32 = field(default=0)
    results: list[AlterUserScramCredentialsResult]
