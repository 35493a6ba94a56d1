"""The asyncio clients: the same names as in `minikafka`, with `await`."""

from .client.admin.admin import Admin
from .client.admin.admin_types import ConfigChange, ConfigResource, NewTopic
from .client.admin.group_admin_types import OpenTransaction
from .client.admin.replication_types import ElectionType, FeatureUpdate, UpgradeType
from .client.consumer.consumer import Consumer
from .client.consumer.interceptors import ConsumerInterceptor
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
    "TopicPartition",
    "UpgradeType",
]
