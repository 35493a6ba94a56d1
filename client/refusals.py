"""The exceptions for error codes of brokers, with the code's meaning and what to do about it.

The table ADVICE says what to do. The meaning of a code is in `protocol/errors.py`.
"""

from collections.abc import Mapping
from typing import Final

from ..protocol.errors import ApiError, ErrorCode
from .errors import ClientError

_JOIN_AGAIN: Final = "poll again: the consumer joins anew and reads on from committed offsets"
_ABORT: Final = "abort the transaction, and do its work again"
_NEW_PRODUCER: Final = "close this producer; if it is the one that should live, open it again"

ADVICE: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_MEMBER_ID: _JOIN_AGAIN,
    ErrorCode.ILLEGAL_GENERATION: _JOIN_AGAIN,
    ErrorCode.FENCED_MEMBER_EPOCH: _JOIN_AGAIN,
    ErrorCode.STALE_MEMBER_EPOCH: _JOIN_AGAIN,
    ErrorCode.REBALANCE_IN_PROGRESS: "poll, then commit again what is still assigned",
    ErrorCode.FENCED_INSTANCE_ID: "give each running member a group_instance_id of its own",
    ErrorCode.UNRELEASED_INSTANCE_ID: "give each running member a group_instance_id of its own",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: (
        "name an assignor that all members of the group have; change assignors in two rolling "
        "restarts; do not use one group id for consumers and something else"
    ),
    ErrorCode.INVALID_GROUP_ID: "set group_id to a name that is not empty",
    ErrorCode.INVALID_SESSION_TIMEOUT: (
        "set session_timeout_ms within the broker's group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    ErrorCode.GROUP_MAX_SIZE_REACHED: "raise the broker's group.max.size or start fewer members",
    ErrorCode.GROUP_ID_NOT_FOUND: "check the group's name; nothing was ever committed under it",
    ErrorCode.NON_EMPTY_GROUP: "stop the group's members first",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "stop the members that read the topic first",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "shorten it, or raise offset.metadata.max.bytes",
    ErrorCode.UNSTABLE_OFFSET_COMMIT: "ask again once the transaction is over",
    ErrorCode.OFFSET_OUT_OF_RANGE: "seek to an offset that the log holds",
    ErrorCode.MESSAGE_TOO_LARGE: "send less at once, or raise the topic's max.message.bytes",
    ErrorCode.RECORD_LIST_TOO_LARGE: "send less at once, or raise the topic's segment.bytes",
    ErrorCode.INVALID_TOPIC_EXCEPTION: (
        "use 1 to 249 letters, digits, dots, underscores and hyphens, and not only dots"
    ),
    ErrorCode.INVALID_RECORD: "give every record of a compacted topic a key",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another compression_type",
    ErrorCode.UNSUPPORTED_VERSION: "use a client and a broker with a version in common",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "records before it were lost: open a new producer",
    ErrorCode.UNKNOWN_PRODUCER_ID: "open a new producer",
    ErrorCode.INVALID_PRODUCER_EPOCH: _NEW_PRODUCER,
    ErrorCode.PRODUCER_FENCED: _NEW_PRODUCER,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: _ABORT,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: _NEW_PRODUCER,
    ErrorCode.INVALID_TXN_STATE: _ABORT,
    ErrorCode.TRANSACTION_ABORTABLE: _ABORT,
    ErrorCode.CONCURRENT_TRANSACTIONS: "wait until the transaction before is over",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: (
        "set transaction_timeout_ms to at most the broker's transaction.max.timeout.ms"
    ),
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "check the transactional id",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "create the topic, or check its name",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "have an administrator allow it",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "have an administrator allow it",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "have an administrator allow it",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "have an administrator allow it",
}


def advice_on(code: ErrorCode) -> str:
    """Return a short sentence on what the user can do about an error code."""
    if code in ADVICE:
        return ADVICE[code]
    if code.retriable:
        return "try again: it passes by itself"
    return "correct the request: the same one will be refused again"


class Refused(ClientError, ApiError):
    """A broker refused a request for good; `code` says why, `advice` what to do about it."""

    @property
    def meaning(self) -> str:
        """The protocol's sentence about the code."""
        return self.code.doc

    @property
    def advice(self) -> str:
        """A sentence on what to do about the code."""
        return advice_on(self.code)

    def __str__(self) -> str:
        where = f"{self.detail}: " if self.detail else ""
        return f"{where}{self.code.name}: {self.meaning} To do: {self.advice}."


class CommitFailed(Refused):
    """Nothing was committed, because this consumer is no longer a member of the group.

    It has usually not polled for max_poll_interval_ms, or sent no heartbeat for session_timeout_ms.
    Other members may have read the same records since, so records are read at least once.
    """


class InstanceFenced(Refused):
    """Another consumer with the same group_instance_id took this one's place in the group."""


def refusal(code: ErrorCode, detail: str = "") -> Refused:
    """Make the exception for a code that a broker answered; `detail` names the request."""
    if code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
        return InstanceFenced(code, detail)
    return Refused(code, detail)
