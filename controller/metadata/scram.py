"""SCRAM credentials: which are set and which are deleted (AlterUserScramCredentials, KIP-554).

Each user gets one result. A request may name a user once for each mechanism; in Kafka, only once.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from ...protocol.control.records import (
    MetadataRecord,
    RemoveScramCredentialRecord,
    ScramCredentialRecord,
    ScramSecretRecord,
)
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ...security.sasl.first_users import FirstUser
from ...security.sasl.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_of,
)
from .decision import DECISION_RECORDS_MAX, Cluster, Decision

Change = ScramCredentialDeletion | ScramCredentialUpsertion
NAME_MAX = 1024
SALT_MAX = 1024


def alter_credentials(
    cluster: Cluster,
    request: AlterUserScramCredentialsRequest,
    random_of: Callable[[str], bytes],
) -> Decision[AlterUserScramCredentialsResponse]:
    """Change credentials; all changes of a user are made, or none.

    `random_of` returns 16 random bytes for a text, the same whenever the request is repeated. Raise
    ApiError INVALID_REQUEST if the request has `DECISION_RECORDS_MAX` changes or more.
    """
    asked: list[Change] = [*request.deletions, *request.upsertions]
    if len(asked) >= DECISION_RECORDS_MAX:
        why = f"{len(asked)} credentials in one request: at most {DECISION_RECORDS_MAX - 1}"
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
    times = Counter((each.name, each.mechanism) for each in asked)
    refused: dict[str, ApiError] = {}
    for each in asked:
        try:
            if times[each.name, each.mechanism] > 1:
                why = "A user credential cannot be altered twice in the same request"
                raise ApiError(ErrorCode.DUPLICATE_RESOURCE, why)
            _check(cluster, each)
        except ApiError as error:
            refused.setdefault(each.name, error)
    records = [_record(each) for each in asked if each.name not in refused]
    if not cluster.image.scram_secret and records:
        records.insert(0, ScramSecretRecord(random_of("scram") + random_of("secret")))
    results = [_result(name, refused.get(name)) for name in dict.fromkeys(e.name for e in asked)]
    return Decision(AlterUserScramCredentialsResponse(results=results), records)


def first_credentials(
    users: Sequence[FirstUser], random_bytes: Callable[[int], bytes]
) -> list[MetadataRecord]:
    """Return the records of the users that a new cluster has; none if there are no users."""
    records: list[MetadataRecord] = [ScramSecretRecord(random_bytes(32))] if users else []
    for user in users:
        credential = user.credential(random_bytes)
        records.append(ScramCredentialRecord(user.name, user.mechanism.value, *credential))
    return records


def _check(cluster: Cluster, asked: Change) -> None:
    """Raise ApiError if the credential cannot be set or deleted."""
    if not asked.name:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(asked.name) > NAME_MAX or "\0" in asked.name:
        why = f"Username must be at most {NAME_MAX} characters, and have no NUL"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)
    try:
        mechanism = ScramMechanism(asked.mechanism)
    except ValueError:
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism") from None
    if isinstance(asked, ScramCredentialDeletion):
        if (asked.mechanism, asked.name) not in cluster.image.scram:
            why = "Attempt to delete a user credential that does not exist"
            raise ApiError(ErrorCode.RESOURCE_NOT_FOUND, why)
        return
    if asked.iterations < ITERATIONS_MIN:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if asked.iterations > ITERATIONS_MAX:
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    size = len(mechanism.hash(b""))
    if len(asked.salted_password) != size:
        why = f"The salted password of {mechanism.sasl_name} has {size} bytes"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)
    if not 0 < len(asked.salt) <= SALT_MAX:
        why = f"The salt must have 1 to {SALT_MAX} bytes"
        raise ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, why)


def _record(asked: Change) -> MetadataRecord:
    if isinstance(asked, ScramCredentialDeletion):
        return RemoveScramCredentialRecord(asked.name, asked.mechanism)
    mechanism = ScramMechanism(asked.mechanism)
    made = credential_of(mechanism, asked.salted_password, asked.salt, asked.iterations)
    return ScramCredentialRecord(asked.name, asked.mechanism, *made)


def _result(name: str, error: ApiError | None) -> AlterUserScramCredentialsResult:
    if error is None:
        return AlterUserScramCredentialsResult(user=name)
    return AlterUserScramCredentialsResult(
        user=name, error_code=error.code, error_message=error.detail
    )
