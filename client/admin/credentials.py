"""Describes and changes the SCRAM credentials of users (KIP-554).

A password never leaves the client: requests hold its salted hash only.
"""

from collections.abc import Iterable

from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ...runtime.errors import ConfigError
from ...security.sasl.scram import BY_NAME, SALT_BYTES, ScramMechanism
from ..outcomes import Outcomes, done_of, error_of, raise_for
from .asking import Asking
from .credential_types import ScramChange


async def describe_scram_credentials(
    asking: Asking, users: Iterable[str] | None = None
) -> dict[str, dict[str, int]]:
    """Return, for each user, the number of hash iterations by mechanism, such as SCRAM-SHA-256.

    The result has the named users, or all if `users` is None. Raise AdminError with unknown users.
    """
    named = None if users is None else [UserName(name=name) for name in users]
    request = DescribeUserScramCredentialsRequest(users=named)
    response: DescribeUserScramCredentialsResponse = await asking.one_broker(
        lambda connection: connection.request(request)
    )
    raise_for(response.error_code, response.error_message)
    found: Outcomes[dict[str, int]] = {}
    for result in response.results:
        found[result.user] = error_of(result.error_code, result.error_message) or {
            ScramMechanism(info.mechanism).sasl_name: info.iterations
            for info in result.credential_infos
        }
    return done_of(found)


async def alter_scram_credentials(asking: Asking, changes: Iterable[ScramChange]) -> None:
    """Set or delete users' passwords; raise AdminError with the users that are refused.

    Raise ConfigError if a mechanism is unknown.
    """
    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []
    for change in changes:
        mechanism = BY_NAME.get(change.mechanism)
        if mechanism is None:
            raise ConfigError("mechanism", change.mechanism, f"must be one of {', '.join(BY_NAME)}")
        if change.password is None:
            deletions.append(ScramCredentialDeletion(name=change.user, mechanism=mechanism.value))
            continue
        salt = asking.random_bytes(SALT_BYTES) if change.salt is None else change.salt
        iterations = change.iterations
        upsertions.append(
            ScramCredentialUpsertion(
                name=change.user,
                mechanism=mechanism.value,
                iterations=iterations,
                salt=salt,
                salted_password=mechanism.salted(change.password, salt, max(1, iterations)),
            )
        )
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    response: AlterUserScramCredentialsResponse = await asking.one_broker(
        lambda connection: connection.request(request)
    )
    done_of({r.user: error_of(r.error_code, r.error_message) for r in response.results})
