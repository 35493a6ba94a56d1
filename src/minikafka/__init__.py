"""minikafka: a Kafka-compatible, replicated log cluster in Python.

    from minikafka import Producer, Consumer, Admin      # for ordinary code
    from minikafka import aio                            # the same clients for asyncio

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import aio as aio
    from .client.admin.acl_types import (
        Acl,
        AclFilter,
        AclOperation,
        AclPattern,
        AclPermission,
        AclResource,
    )
    from .client.admin.cluster_types import (
        BrokerDescription,
        ClusterDescription,
        FeatureLevels,
        FeatureMetadata,
        FeatureUpdate,
        MetadataQuorum,
        QuorumReplica,
        UpgradeType,
    )
    from .client.admin.config_types import ConfigChange, ConfigEntry, ConfigResource
    from .client.admin.credential_types import ScramChange
    from .client.admin.delayed_types import (
        DelayedRecord,
        DelayedState,
        ForwardingStatus,
        ForwardingTarget,
    )
    from .client.admin.group_types import GroupDescription, GroupListing, GroupMember
    from .client.admin.lag_types import PartitionLag
    from .client.admin.log_types import LogDirectory, ReplicaInfo, TopicPartitionReplica
    from .client.admin.quota_types import QuotaEntity
    from .client.admin.replica_types import (
        EpochStart,
        FollowerState,
        ReplicaRole,
        ReplicaState,
        UndecidedTransaction,
    )
    from .client.admin.sync_admin import Admin
    from .client.admin.token_types import DelegationToken
    from .client.admin.topic_types import (
        CreatedTopic,
        ElectionType,
        NewTopic,
        PartitionDescription,
        Reassignment,
        TopicDescription,
        TopicListing,
    )
    from .client.admin.transaction_types import (
        ActiveProducer,
        FencedProducer,
        OpenTransaction,
        TransactionDescription,
        TransactionListing,
    )
    from .client.consumer.interceptors import ConsumerInterceptor
    from .client.consumer.retry_policy import RetryPolicy, RetryTopics
    from .client.errors import (
        AdminError,
        BadRecord,
        BootstrapError,
        BufferFull,
        ClientClosed,
        ClientError,
        ConcurrentPoll,
        CorruptRecord,
        DeliveryFailed,
        DeliveryTimeout,
        ForkedClient,
        LogTruncated,
        MessageTooLarge,
        NoOffsetForPartition,
        NothingToRead,
        OffsetOutOfRange,
        ProducerFenced,
        RequestTimedOut,
        TransactionAbortable,
        TransactionAborted,
        TransactionError,
        TransactionFailed,
        TransactionMisuse,
        UnknownTopic,
        UnsupportedVersion,
    )
    from .client.group_types import (
        CommitGroupState,
        ConsumerGroupMetadata,
        OffsetAndMetadata,
        PreparedTransaction,
        RebalanceListener,
    )
    from .client.producer.columns import Columns
    from .client.producer.interceptors import (
        OutgoingRecord,
        ProducerInterceptor,
    )
    from .client.records import (
        BatchMetadata,
        ConsumerRecord,
        OffsetAndTimestamp,
        ProducerRecord,
        RawRecords,
        RecordColumns,
        RecordMetadata,
    )
    from .client.refusals import CommitFailed, InstanceFenced, Refused
    from .client.serialization import Deserializer, Serializer
    from .client.sync_consumer import Consumer
    from .client.sync_producer import Producer, SyncBatchDelivery, SyncDelivery
    from .client.sync_retry_worker import RetryWorker
    from .protocol.errors import ApiError, ErrorCode
    from .protocol.types import TopicPartition
    from .runtime.errors import ConfigError, MinikafkaError

    __version__: str

_HOMES = {
    ".client.admin.acl_types": (
        "Acl",
        "AclFilter",
        "AclOperation",
        "AclPattern",
        "AclPermission",
        "AclResource",
    ),
    ".client.admin.cluster_types": (
        "BrokerDescription",
        "ClusterDescription",
        "FeatureLevels",
        "FeatureMetadata",
        "FeatureUpdate",
        "MetadataQuorum",
        "QuorumReplica",
        "UpgradeType",
    ),
    ".client.admin.config_types": ("ConfigChange", "ConfigEntry", "ConfigResource"),
    ".client.admin.credential_types": ("ScramChange",),
    ".client.admin.delayed_types": (
        "DelayedRecord",
        "DelayedState",
        "ForwardingStatus",
        "ForwardingTarget",
    ),
    ".client.admin.group_types": ("GroupDescription", "GroupListing", "GroupMember"),
    ".client.admin.lag_types": ("PartitionLag",),
    ".client.admin.log_types": ("LogDirectory", "ReplicaInfo", "TopicPartitionReplica"),
    ".client.admin.quota_types": ("QuotaEntity",),
    ".client.admin.replica_types": (
        "EpochStart",
        "FollowerState",
        "ReplicaRole",
        "ReplicaState",
        "UndecidedTransaction",
    ),
    ".client.admin.sync_admin": ("Admin",),
    ".client.admin.token_types": ("DelegationToken",),
    ".client.admin.topic_types": (
        "CreatedTopic",
        "ElectionType",
        "NewTopic",
        "PartitionDescription",
        "Reassignment",
        "TopicDescription",
        "TopicListing",
    ),
    ".client.admin.transaction_types": (
        "ActiveProducer",
        "FencedProducer",
        "OpenTransaction",
        "TransactionDescription",
        "TransactionListing",
    ),
    ".client.consumer.interceptors": ("ConsumerInterceptor",),
    ".client.consumer.retry_policy": ("RetryPolicy", "RetryTopics"),
    ".client.errors": (
        "AdminError",
        "BadRecord",
        "BootstrapError",
        "BufferFull",
        "ClientClosed",
        "ClientError",
        "ConcurrentPoll",
        "CorruptRecord",
        "DeliveryFailed",
        "DeliveryTimeout",
        "ForkedClient",
        "LogTruncated",
        "MessageTooLarge",
        "NoOffsetForPartition",
        "NothingToRead",
        "OffsetOutOfRange",
        "ProducerFenced",
        "RequestTimedOut",
        "TransactionAbortable",
        "TransactionAborted",
        "TransactionError",
        "TransactionFailed",
        "TransactionMisuse",
        "UnknownTopic",
        "UnsupportedVersion",
    ),
    ".client.group_types": (
        "CommitGroupState",
        "ConsumerGroupMetadata",
        "OffsetAndMetadata",
        "PreparedTransaction",
        "RebalanceListener",
    ),
    ".client.producer.columns": ("Columns",),
    ".client.producer.interceptors": ("OutgoingRecord", "ProducerInterceptor"),
    ".client.records": (
        "BatchMetadata",
        "ConsumerRecord",
        "OffsetAndTimestamp",
        "ProducerRecord",
        "RawRecords",
        "RecordColumns",
        "RecordMetadata",
    ),
    ".client.refusals": ("CommitFailed", "InstanceFenced", "Refused"),
    ".client.serialization": ("Deserializer", "Serializer"),
    ".client.sync_consumer": ("Consumer",),
    ".client.sync_producer": ("Producer", "SyncBatchDelivery", "SyncDelivery"),
    ".client.sync_retry_worker": ("RetryWorker",),
    ".protocol.errors": ("ApiError", "ErrorCode"),
    ".protocol.types": ("TopicPartition",),
    ".runtime.errors": ("ConfigError", "MinikafkaError"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Acl",
    "AclFilter",
    "AclOperation",
    "AclPattern",
    "AclPermission",
    "AclResource",
    "ActiveProducer",
    "Admin",
    "AdminError",
    "ApiError",
    "BadRecord",
    "BatchMetadata",
    "BootstrapError",
    "BrokerDescription",
    "BufferFull",
    "ClientClosed",
    "ClientError",
    "ClusterDescription",
    "Columns",
    "CommitFailed",
    "CommitGroupState",
    "ConcurrentPoll",
    "ConfigChange",
    "ConfigEntry",
    "ConfigError",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CorruptRecord",
    "CreatedTopic",
    "DelayedRecord",
    "DelayedState",
    "DelegationToken",
    "DeliveryFailed",
    "DeliveryTimeout",
    "Deserializer",
    "ElectionType",
    "EpochStart",
    "ErrorCode",
    "FeatureLevels",
    "FeatureMetadata",
    "FeatureUpdate",
    "FencedProducer",
    "FollowerState",
    "ForkedClient",
    "ForwardingStatus",
    "ForwardingTarget",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "InstanceFenced",
    "LogDirectory",
    "LogTruncated",
    "MessageTooLarge",
    "MetadataQuorum",
    "MinikafkaError",
    "NewTopic",
    "NoOffsetForPartition",
    "NothingToRead",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "OpenTransaction",
    "OutgoingRecord",
    "PartitionDescription",
    "PartitionLag",
    "PreparedTransaction",
    "Producer",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "QuorumReplica",
    "QuotaEntity",
    "RawRecords",
    "Reassignment",
    "RebalanceListener",
    "RecordColumns",
    "RecordMetadata",
    "Refused",
    "ReplicaInfo",
    "ReplicaRole",
    "ReplicaState",
    "RequestTimedOut",
    "RetryPolicy",
    "RetryTopics",
    "RetryWorker",
    "ScramChange",
    "Serializer",
    "SyncBatchDelivery",
    "SyncDelivery",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TopicPartitionReplica",
    "TransactionAbortable",
    "TransactionAborted",
    "TransactionDescription",
    "TransactionError",
    "TransactionFailed",
    "TransactionListing",
    "TransactionMisuse",
    "UndecidedTransaction",
    "UnknownTopic",
    "UnsupportedVersion",
    "UpgradeType",
    "aio",
]


def __getattr__(name: str) -> Any:
    if name == "aio":
        return import_module(".aio", __name__)
    if name == "__version__":
        return import_module(".runtime.version", __name__).VERSION
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home, __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
