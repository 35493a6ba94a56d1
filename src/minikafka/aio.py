"""The asyncio clients: the same names as in `minikafka`, with `await`."""

from .client.admin.admin import Admin
from .client.admin.cluster_types import FeatureUpdate, UpgradeType
from .client.admin.config_types import ConfigChange, ConfigResource
from .client.admin.topic_types import ElectionType, NewTopic
from .client.admin.transaction_types import OpenTransaction
from .client.consumer.consumer import Consumer
from .client.consumer.interceptors import ConsumerInterceptor
from .client.consumer.retry_policy import RetryPolicy, RetryTopics
from .client.consumer.retry_worker import RetryWorker
from .client.group_types import ConsumerGroupMetadata, OffsetAndMetadata, RebalanceListener
from .client.producer.columns import Columns
from .client.producer.delivery import BatchDelivery, Delivery
from .client.producer.interceptors import OutgoingRecord, ProducerInterceptor
from .client.producer.producer import Producer
from .client.records import (
    BatchMetadata,
    ConsumerRecord,
    OffsetAndTimestamp,
    ProducerRecord,
    RawRecords,
    RecordColumns,
    RecordMetadata,
)
from .protocol.types import TopicPartition

__all__ = [
    "Admin",
    "BatchDelivery",
    "BatchMetadata",
    "Columns",
    "ConfigChange",
    "ConfigResource",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "Delivery",
    "ElectionType",
    "FeatureUpdate",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OpenTransaction",
    "OutgoingRecord",
    "Producer",
    "ProducerInterceptor",
    "ProducerRecord",
    "RawRecords",
    "RebalanceListener",
    "RecordColumns",
    "RecordMetadata",
    "RetryPolicy",
    "RetryTopics",
    "RetryWorker",
    "TopicPartition",
    "UpgradeType",
]
