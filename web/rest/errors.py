"""The errors of the proxy: HTTP status, error code and message, and what of Kafka becomes which.

The codes are those of Confluent's REST proxy; 429 and 413 are HTTP's own. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...client.errors import (
    AdminError,
    BootstrapError,
    BufferFull,
    ClientClosed,
    ConnectionLost,
    DeliveryFailed,
    DeliveryTimeout,
    MessageTooLarge,
    NothingToRead,
    RequestTimedOut,
    UnknownTopic,
)
from ...protocol.errors import ApiError, ErrorCode
from ...runtime.errors import ConfigError, MinikafkaError


class Kind(NamedTuple):
    """A kind of error: the HTTP status, and the code in the body."""

    status: int
    code: int


BAD_REQUEST: Final = Kind(400, 400)
KAFKA_BAD_REQUEST: Final = Kind(400, 40002)
NO_LOGIN: Final = Kind(401, 40101)
NOT_ALLOWED: Final = Kind(403, 40301)
WRONG_HOST: Final = Kind(403, 403)
OTHER_ORIGIN: Final = Kind(403, 403)
NOT_FOUND: Final = Kind(404, 404)
NO_TOPIC: Final = Kind(404, 40401)
NO_PARTITION: Final = Kind(404, 40402)
NO_TOPIC_V3: Final = Kind(404, 40403)
NO_INSTANCE: Final = Kind(404, 40403)
NO_LEADER: Final = Kind(404, 40404)
NO_GROUP: Final = Kind(404, 40405)
NOT_ACCEPTABLE: Final = Kind(406, 406)
OTHER_FORMAT: Final = Kind(406, 40601)
TOO_SLOW: Final = Kind(408, 408)
INSTANCE_EXISTS: Final = Kind(409, 40902)
ILLEGAL_STATE: Final = Kind(409, 40903)
TOO_LARGE: Final = Kind(413, 413)
MEDIA_TYPE: Final = Kind(415, 415)
UNPROCESSABLE: Final = Kind(422, 422)
CONSUMER_CONFIG: Final = Kind(422, 42204)
PAYLOAD: Final = Kind(422, 42206)
SERIALIZATION: Final = Kind(422, 42207)
BATCH: Final = Kind(422, 42208)
TOO_MANY: Final = Kind(429, 429)
BUG: Final = Kind(500, 500)
KAFKA: Final = Kind(500, 50002)
KAFKA_RETRIABLE: Final = Kind(500, 50003)
NO_ROOM: Final = Kind(503, 50301)
NO_BROKER: Final = Kind(503, 50302)

_BY_CODE: Final[Mapping[ErrorCode, Kind]] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: NOT_ALLOWED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: NOT_ALLOWED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: NOT_ALLOWED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: NOT_ALLOWED,
    ErrorCode.SASL_AUTHENTICATION_FAILED: NO_LOGIN,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NO_TOPIC_V3,
    ErrorCode.LEADER_NOT_AVAILABLE: NO_LEADER,
    ErrorCode.GROUP_ID_NOT_FOUND: NO_GROUP,
    ErrorCode.BROKER_NOT_AVAILABLE: NO_BROKER,
    **dict.fromkeys(
        (
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.INVALID_TIMESTAMP,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.SECURITY_DISABLED,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        KAFKA_BAD_REQUEST,
    ),
}


@dataclass(eq=False, repr=False)
class RestError(MinikafkaError):
    """An answer that is an error; the message says what is wrong, where, and what to do."""

    kind: Kind
    message: str
    retry_after_s: int | None = None
    """Seconds after which the same request may succeed."""

    def __str__(self) -> str:
        return self.message

    def body(self) -> dict[str, object]:
        """Return the answer's body, as both versions of the API have it."""
        return {"error_code": self.kind.code, "message": self.message}


def answer_of(error: MinikafkaError, *, is_v2: bool) -> RestError:
    """Return the answer to a request that ended with `error`."""
    if isinstance(error, RestError):
        is_other = is_v2 and error.kind is NO_TOPIC_V3
        return RestError(NO_TOPIC, error.message) if is_other else error
    if isinstance(error, AdminError) and len(error.errors) == 1:
        (error,) = error.errors.values()
    kind = _kind_of(error)
    if is_v2 and kind is NO_TOPIC_V3:
        kind = NO_TOPIC
    return RestError(kind, str(error))


def _kind_of(error: MinikafkaError) -> Kind:
    match error:
        case AdminError():
            kinds = [_kind_of(one) for one in error.errors.values()]
            return max(kinds) if kinds else KAFKA
        case ApiError():
            other = KAFKA_RETRIABLE if error.code.retriable else KAFKA
            return _BY_CODE.get(error.code, other)
        case DeliveryFailed():
            return _kind_of(error.error)
        case BootstrapError():
            return NO_LOGIN if error.is_final else NO_BROKER
        case UnknownTopic():
            return NO_TOPIC_V3
        case MessageTooLarge():
            return KAFKA_BAD_REQUEST
        case NothingToRead():
            return ILLEGAL_STATE
        case ConfigError():
            return BAD_REQUEST
        case (
            RequestTimedOut() | DeliveryTimeout() | ConnectionLost() | ClientClosed() | BufferFull()
        ):
            return KAFKA_RETRIABLE
        case _:
            return KAFKA
