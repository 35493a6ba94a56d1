"""The error table of the Kafka protocol, and the exceptions for errors of the protocol.

For each code the table has a sentence on what happened, and says whether repeating the request can
help and whether the client's metadata is stale. All other code takes these two answers from the
table.
"""

from enum import IntEnum, IntFlag
from typing import Final, Self

from ..runtime.errors import MinikafkaError


class Cure(IntFlag):
    """The steps by which a client may recover from an error."""

    NOTHING = 0
    RETRY = 1
    REFRESH = 2
    """Refresh the metadata first, because the partition, topic or leader may have changed."""


RETRY = Cure.RETRY
STALE = Cure.RETRY | Cure.REFRESH


class ErrorCode(IntEnum):
    """Every error code of Kafka 4.3; an unknown number becomes UNKNOWN_SERVER_ERROR."""

    retriable: bool
    stale_metadata: bool
    doc: str

    def __new__(cls, code: int, doc: str = "", cure: Cure = Cure.NOTHING) -> Self:
        """Make one row of the table: the code on the wire, its sentence and its cure."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.doc = doc
        member.retriable = bool(cure & Cure.RETRY)
        member.stale_metadata = bool(cure & Cure.REFRESH)
        return member

    @classmethod
    def _missing_(cls, value: object) -> "ErrorCode":
        return cls.UNKNOWN_SERVER_ERROR

    UNKNOWN_SERVER_ERROR = -1, "The server failed in a way the protocol has no code for."
    NONE = 0, "No error."
    OFFSET_OUT_OF_RANGE = 1, "The log holds nothing at this offset."
    CORRUPT_MESSAGE = 2, "A batch is damaged: wrong checksum, size or structure.", RETRY
    UNKNOWN_TOPIC_OR_PARTITION = 3, "This server does not know the partition.", STALE
    INVALID_FETCH_SIZE = 4, "The fetch size asked for is not possible."
    LEADER_NOT_AVAILABLE = 5, "The partition has no leader at the moment.", STALE
    NOT_LEADER_OR_FOLLOWER = 6, "Another broker has the role this request needs.", STALE
    REQUEST_TIMED_OUT = 7, "The time allowed passed before the work was done.", RETRY
    BROKER_NOT_AVAILABLE = 8, "The broker is not alive."
    REPLICA_NOT_AVAILABLE = 9, "The broker holds no usable replica of the partition.", STALE
    MESSAGE_TOO_LARGE = 10, "A batch is larger than max.message.bytes allows."
    STALE_CONTROLLER_EPOCH = 11, "The sender is no longer the active controller."
    OFFSET_METADATA_TOO_LARGE = 12, "The metadata of a committed offset is too long."
    NETWORK_EXCEPTION = 13, "The connection ended before the answer came.", STALE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "The coordinator is still reading its log.", RETRY
    COORDINATOR_NOT_AVAILABLE = 15, "No broker can coordinate this at the moment.", RETRY
    NOT_COORDINATOR = 16, "Another broker coordinates this.", RETRY
    INVALID_TOPIC_EXCEPTION = 17, "The topic name is not allowed."
    RECORD_LIST_TOO_LARGE = 18, "The batches together are larger than a segment."
    NOT_ENOUGH_REPLICAS = 19, "Too few in-sync replicas: nothing was appended.", RETRY
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, "Appended, but too few replicas have the batch.", RETRY
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1."
    ILLEGAL_GENERATION = 22, "The group has another generation by now."
    INCONSISTENT_GROUP_PROTOCOL = 23, "No assignment protocol is common to all members."
    INVALID_GROUP_ID = 24, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, "The group does not know this member."
    INVALID_SESSION_TIMEOUT = 26, "The session timeout is outside the server's bounds."
    REBALANCE_IN_PROGRESS = 27, "The group is rebalancing: join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, "The offsets of one commit are too large."
    TOPIC_AUTHORIZATION_FAILED = 29, "The principal may not do this to the topic."
    GROUP_AUTHORIZATION_FAILED = 30, "The principal may not do this to the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, "The principal may not do this to the cluster."
    INVALID_TIMESTAMP = 32, "A timestamp is too far from the server's clock."
    UNSUPPORTED_SASL_MECHANISM = 33, "The server does not offer this mechanism."
    ILLEGAL_SASL_STATE = 34, "Authentication does not allow this request now."
    UNSUPPORTED_VERSION = 35, "The server does not serve this version of the API."
    TOPIC_ALREADY_EXISTS = 36, "A topic of this name exists."
    INVALID_PARTITIONS = 37, "The number of partitions is not possible."
    INVALID_REPLICATION_FACTOR = 38, "It is not between 1 and the number of live brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, "The brokers named for the replicas are not possible."
    INVALID_CONFIG = 40, "A configuration key or value is not possible."
    NOT_CONTROLLER = 41, "Another node is the active controller.", RETRY
    INVALID_REQUEST = 42, "The request contradicts itself or the protocol."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "The log's record format cannot express this."
    POLICY_VIOLATION = 44, "A policy of the cluster forbids it."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "A sequence number is missing before this batch."
    DUPLICATE_SEQUENCE_NUMBER = 46, "This batch was appended before."
    INVALID_PRODUCER_EPOCH = 47, "A newer producer has taken over this producer id."
    INVALID_TXN_STATE = 48, "The transaction cannot do this in its present state."
    INVALID_PRODUCER_ID_MAPPING = 49, "The transactional id belongs to another producer id."
    INVALID_TRANSACTION_TIMEOUT = 50, "The timeout is above transaction.max.timeout.ms."
    CONCURRENT_TRANSACTIONS = 51, "An earlier change of the transaction is unfinished.", RETRY
    TRANSACTION_COORDINATOR_FENCED = 52, "A newer coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "The principal may not use this transactional id."
    SECURITY_DISABLED = 54, "Security features are switched off."
    OPERATION_NOT_ATTEMPTED = 55, "It was not tried, because another part failed first."
    KAFKA_STORAGE_ERROR = 56, "The disk under the partition failed.", STALE
    LOG_DIR_NOT_FOUND = 57, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, "The credentials were refused."
    UNKNOWN_PRODUCER_ID = 59, "The broker has no state of this producer id."
    REASSIGNMENT_IN_PROGRESS = 60, "The partition's replicas are being moved."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "Delegation tokens are switched off."
    DELEGATION_TOKEN_NOT_FOUND = 62, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "The principal neither owns nor may renew the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, "Delegation tokens need another kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "The principal may not use this token."
    DELEGATION_TOKEN_EXPIRED = 66, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, "The principal type is not supported."
    NON_EMPTY_GROUP = 68, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, "There is no such group."
    FETCH_SESSION_ID_NOT_FOUND = 70, "The server no longer keeps this fetch session.", RETRY
    INVALID_FETCH_SESSION_EPOCH = 71, "The fetch session expected another epoch.", RETRY
    LISTENER_NOT_FOUND = 72, "The leader has no listener of the name you came by.", STALE
    TOPIC_DELETION_DISABLED = 73, "delete.topic.enable is off."
    FENCED_LEADER_EPOCH = 74, "The request has an outdated leader epoch.", STALE
    UNKNOWN_LEADER_EPOCH = 75, "The request has a newer leader epoch than the broker.", RETRY
    UNSUPPORTED_COMPRESSION_TYPE = 76, "This version of the API cannot carry the compression."
    STALE_BROKER_EPOCH = 77, "The broker has registered again since then."
    OFFSET_NOT_AVAILABLE = 78, "The new leader does not know the high watermark yet.", RETRY
    MEMBER_ID_REQUIRED = 79, "Join again with the member id given here."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "The preferred leader is not in sync or alive.", STALE
    GROUP_MAX_SIZE_REACHED = 81, "The group is full."
    FENCED_INSTANCE_ID = 82, "Another member took over this static instance id."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "No replica that may lead is alive.", STALE
    ELECTION_NOT_NEEDED = 84, "The partition already has the leader to elect.", STALE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "The partition's replicas are not being moved."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "A member of the group reads this topic."
    INVALID_RECORD = 87, "A record breaks a rule of its topic or of the format."
    UNSTABLE_OFFSET_COMMIT = 88, "An open transaction may change these offsets.", RETRY
    THROTTLING_QUOTA_EXCEEDED = 89, "The quota is exceeded: wait, then try again.", RETRY
    PRODUCER_FENCED = 90, "A newer producer has the same transactional id."
    RESOURCE_NOT_FOUND = 91, "The named thing does not exist."
    DUPLICATE_RESOURCE = 92, "The same thing is named twice."
    UNACCEPTABLE_CREDENTIAL = 93, "The credential is weaker than the server accepts."
    INCONSISTENT_VOTER_SET = 94, "Sender and receiver know different voters."
    INVALID_UPDATE_VERSION = 95, "The version given is not the newest."
    FEATURE_UPDATE_FAILED = 96, "The finalised features could not be changed."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "The forwarded principal cannot be read."
    SNAPSHOT_NOT_FOUND = 98, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, "The snapshot is shorter than the position asked for."
    UNKNOWN_TOPIC_ID = 100, "This server does not know the topic id.", STALE
    DUPLICATE_BROKER_REGISTRATION = 101, "A live broker has this id."
    BROKER_ID_NOT_REGISTERED = 102, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, "The topic's id and its log disagree.", STALE
    INCONSISTENT_CLUSTER_ID = 104, "The sender belongs to another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, "The coordinator does not know the transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "A session mixed topic names and topic ids.", RETRY
    INELIGIBLE_REPLICA = 107, "A proposed member of the ISR may not join it."
    NEW_LEADER_ELECTED = 108, "The change was made, and another broker leads now."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "The offset is in tiered storage only."
    FENCED_MEMBER_EPOCH = 110, "The member's epoch was fenced: join again."
    UNRELEASED_INSTANCE_ID = 111, "Another live member uses this instance id."
    UNSUPPORTED_ASSIGNOR = 112, "The group cannot use this assignor."
    STALE_MEMBER_EPOCH = 113, "Repeat with the member epoch of the newest heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, "A broker was asked as a controller, or the reverse."
    UNSUPPORTED_ENDPOINT_TYPE = 115, "The kind of endpoint is not known."
    UNKNOWN_CONTROLLER_ID = 116, "No controller of this id is registered."
    UNKNOWN_SUBSCRIPTION_ID = 117, "The telemetry subscription is not the newest."
    TELEMETRY_TOO_LARGE = 118, "The telemetry pushed is too large."
    INVALID_REGISTRATION = 119, "The registration contradicts the cluster."
    TRANSACTION_ABORTABLE = 120, "The transaction can only be aborted."
    INVALID_RECORD_STATE = 121, "The record cannot be acknowledged in its present state."
    SHARE_SESSION_NOT_FOUND = 122, "The server no longer keeps this share session.", RETRY
    INVALID_SHARE_SESSION_EPOCH = 123, "The share session expected another epoch.", RETRY
    FENCED_STATE_EPOCH = 124, "The share coordinator knows a newer state epoch."
    INVALID_VOTER_KEY = 125, "The voter's directory id does not match."
    DUPLICATE_VOTER = 126, "The voter is already in the set."
    VOTER_NOT_FOUND = 127, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, "The regular expression cannot be read."
    REBOOTSTRAP_REQUIRED = 129, "Start again from the bootstrap servers."
    STREAMS_INVALID_TOPOLOGY = 130, "The streams topology is not possible."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "The topology epoch is not the group's."
    STREAMS_TOPOLOGY_FENCED = 132, "The group runs a newer topology."
    SHARE_SESSION_LIMIT_REACHED = 133, "The server keeps no more share sessions.", RETRY


MOST_DETAIL: Final = 2_000
"""The most characters kept of an error's text; a protocol string has at most 32,767 bytes."""


class ApiError(MinikafkaError):
    """An error with a code of the protocol, which is sent to the peer."""

    def __init__(self, code: ErrorCode, detail: str = "") -> None:
        """`detail` is a text for people, sent as the error message or logged.

        Only its first MOST_DETAIL characters are kept. It may quote what a client has sent.
        """
        if len(detail) > MOST_DETAIL:
            detail = detail[: MOST_DETAIL - 2] + " …"
        super().__init__(f"{code.name}: {detail or code.doc}")
        self.code = code
        self.detail = detail


class ProtocolError(MinikafkaError):
    """Bytes or calls that the protocol does not allow."""


class LocalProtocolError(ProtocolError):
    """A mistake of this process, such as a message that the chosen version cannot express."""


class RemoteProtocolError(ProtocolError):
    """Malformed or forbidden bytes, received from a peer or read from a log.

    Later bytes of the same connection cannot be trusted, so the connection must be closed.
    """
