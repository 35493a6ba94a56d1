"""Descriptions of the internal topics to create: partitions, replicas and settings.

Values only; `AutoCreation` asks the controller to create the topics.
"""

from collections.abc import Mapping

from ...protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from .group.config import GroupConfig
from .keys import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from .transaction.config import TransactionConfig


def offsets_topic(config: GroupConfig) -> CreatableTopic:
    """Describe the topic that keeps groups and committed offsets."""
    return internal_topic(
        GROUPS_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {"segment.bytes": str(config.offsets_topic_segment_bytes)},
    )


def transactions_topic(config: TransactionConfig) -> CreatableTopic:
    """Describe the topic of transactional ids, which never elects a leader outside the ISR."""
    return internal_topic(
        TRANSACTIONS_TOPIC,
        config.topic_partitions,
        config.topic_replicas,
        {
            "segment.bytes": str(config.topic_segment_bytes),
            "min.insync.replicas": str(config.topic_min_isr),
            "unclean.leader.election.enable": "false",
        },
    )


def internal_topic(
    name: str, partitions: int, replicas: int, configs: Mapping[str, str]
) -> CreatableTopic:
    """Describe a compacted topic; `configs` are further settings."""
    wanted = {"cleanup.policy": "compact", "compression.type": "producer", **configs}
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in wanted.items()],
    )
