"""The table of permissions: what each API asks of a principal, and how it refuses.

Brokers read it for the requests of their clients, and controllers for those that brokers forward,
if an authorizer is configured; the tests and docs/security.md read it too. A row is a list of
guards, checked in order. An API without a guard is open to everybody.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ...protocol.acls import Operation as Op
from ...protocol.acls import Resource
from ...protocol.api import ApiKey
from .guards import (
    Each,
    Guard,
    Inside,
    Need,
    Shown,
    Whole,
    by_attribute,
    by_name_or_id,
    itself,
)
from .special_guards import (
    AddedPartitions,
    CommittedTransactions,
    Configs,
    Coordinators,
    CreatedConfigs,
    DeletedTopics,
    FetchedOffsets,
    MovedReplicas,
    ProducerId,
    ScramUsers,
    ShownTokens,
    TokenOwner,
)
from .target_guard import Targets, of_resources, of_topics

TOPIC, GROUP, CLUSTER, TRANSACTION = (
    Resource.TOPIC,
    Resource.GROUP,
    Resource.CLUSTER,
    Resource.TRANSACTIONAL_ID,
)
NAME, PARTS = by_attribute("name"), ("topics", "topics")
READ_GROUP = Whole(Need(Op.READ, GROUP), "group_id")
READ_GROUP_OF_TOPICS = Whole(Need(Op.READ, GROUP), "group_id", parts=PARTS)
DESCRIBE_TOPICS = Each(Need(Op.DESCRIBE, TOPIC), "topics", "topics", NAME)
READ_TOPICS = Each(Need(Op.READ, TOPIC), "topics", "topics", NAME)
WRITE_TRANSACTION = Whole(Need(Op.WRITE, TRANSACTION), "transactional_id")
DESCRIBE_CLUSTER = Whole(Need(Op.DESCRIBE, CLUSTER))
ALTER_CONFIGS = (
    Configs(Op.ALTER_CONFIGS, "responses"),
    Targets("resources", "responses", of_resources),
)
ALTER_CLUSTER = Whole(Need(Op.ALTER, CLUSTER))

TABLE: Final[Mapping[ApiKey, Sequence[Guard]]] = {
    ApiKey.API_VERSIONS: (),
    ApiKey.SASL_HANDSHAKE: (),
    ApiKey.SASL_AUTHENTICATE: (),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (),
    ApiKey.PUSH_TELEMETRY: (),
    # Records and topics.
    ApiKey.PRODUCE: (Inside((Need(Op.WRITE, TOPIC), Need(Op.WRITE, TRANSACTION))),),
    ApiKey.FETCH: (Inside((Need(Op.READ, TOPIC), Need(Op.CLUSTER_ACTION, CLUSTER))),),
    ApiKey.METADATA: (
        Inside((Need(Op.DESCRIBE, TOPIC), Need(Op.CREATE, TOPIC), Need(Op.CREATE, CLUSTER))),
    ),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (Inside((Need(Op.DESCRIBE, TOPIC),)),),
    ApiKey.LIST_OFFSETS: (DESCRIBE_TOPICS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (
        Each(
            Need(Op.DESCRIBE, TOPIC),
            "topics",
            "topics",
            by_attribute("topic"),
            on_cluster=Op.CLUSTER_ACTION,
        ),
    ),
    ApiKey.CREATE_TOPICS: (
        Each(Need(Op.CREATE, TOPIC), "topics", "topics", NAME, on_cluster=Op.CREATE),
        Targets("topics", "topics", of_topics),
        CreatedConfigs(),
    ),
    ApiKey.DELETE_TOPICS: (DeletedTopics(),),
    ApiKey.DELETE_RECORDS: (Each(Need(Op.DELETE, TOPIC), "topics", "topics", NAME),),
    ApiKey.CREATE_PARTITIONS: (Each(Need(Op.ALTER, TOPIC), "topics", "results", NAME),),
    ApiKey.DESCRIBE_PRODUCERS: (READ_TOPICS,),
    ApiKey.DESCRIBE_REPLICAS: (DESCRIBE_TOPICS,),
    ApiKey.DESCRIBE_LAG: (DESCRIBE_TOPICS,),
    ApiKey.LIST_DELAYED: (READ_TOPICS,),
    ApiKey.ALTER_DELAYED: (Each(Need(Op.DELETE, TOPIC), "topics", "topics", NAME),),
    ApiKey.DESCRIBE_FORWARDING: (DESCRIBE_TOPICS,),
    ApiKey.REFIRE_FORWARDED: (Whole(Need(Op.DELETE, TOPIC), "topic"),),
    # Groups.
    ApiKey.FIND_COORDINATOR: (Coordinators(),),
    ApiKey.JOIN_GROUP: (READ_GROUP,),
    ApiKey.SYNC_GROUP: (READ_GROUP,),
    ApiKey.HEARTBEAT: (READ_GROUP,),
    ApiKey.LEAVE_GROUP: (READ_GROUP,),
    ApiKey.OFFSET_COMMIT: (
        READ_GROUP_OF_TOPICS,
        Each(Need(Op.READ, TOPIC), "topics", "topics", by_name_or_id),
    ),
    ApiKey.OFFSET_FETCH: (FetchedOffsets(),),
    ApiKey.OFFSET_DELETE: (Whole(Need(Op.DELETE, GROUP), "group_id"), READ_TOPICS),
    ApiKey.LIST_GROUPS: (
        Shown(Need(Op.DESCRIBE, GROUP), "groups", "group_id", on_cluster=Op.DESCRIBE),
    ),
    ApiKey.DESCRIBE_GROUPS: (Each(Need(Op.DESCRIBE, GROUP), "groups", "groups", itself),),
    ApiKey.DELETE_GROUPS: (Each(Need(Op.DELETE, GROUP), "groups_names", "results", itself),),
    # Transactions.
    ApiKey.INIT_PRODUCER_ID: (ProducerId(),),
    ApiKey.ADD_PARTITIONS_TO_TXN: (AddedPartitions(),),
    ApiKey.ADD_OFFSETS_TO_TXN: (WRITE_TRANSACTION, READ_GROUP),
    ApiKey.TXN_OFFSET_COMMIT: (
        Whole(Need(Op.WRITE, TRANSACTION), "transactional_id", parts=PARTS),
        READ_GROUP_OF_TOPICS,
        READ_TOPICS,
    ),
    ApiKey.END_TXN: (WRITE_TRANSACTION,),
    ApiKey.FORWARD_RECORDS: (Whole(Need(Op.CLUSTER_ACTION, CLUSTER)),),
    ApiKey.AUDIT_EVENTS: (Whole(Need(Op.CLUSTER_ACTION, CLUSTER)),),
    ApiKey.WRITE_TRACE: (Whole(Need(Op.CLUSTER_ACTION, CLUSTER)),),
    ApiKey.WRITE_TXN_MARKERS: (
        Whole(Need(Op.CLUSTER_ACTION, CLUSTER), instead=Op.ALTER, parts=("markers", "markers")),
    ),
    ApiKey.DESCRIBE_TRANSACTIONS: (
        Each(Need(Op.DESCRIBE, TRANSACTION), "transactional_ids", "transaction_states", itself),
        Shown(Need(Op.DESCRIBE, TOPIC), "transaction_states", "topic", inside="topics"),
    ),
    ApiKey.LIST_TRANSACTIONS: (
        Shown(Need(Op.DESCRIBE, TRANSACTION), "transaction_states", "transactional_id"),
    ),
    ApiKey.INIT_COMMIT_GROUP: (Whole(Need(Op.WRITE, TRANSACTION), "group"),),
    ApiKey.COMMIT_GROUP: (CommittedTransactions(),),
    # The cluster, its settings and its security.
    ApiKey.DESCRIBE_CLUSTER: (),
    ApiKey.DESCRIBE_CONFIGS: (Configs(Op.DESCRIBE_CONFIGS, "results"),),
    ApiKey.ALTER_CONFIGS: ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ALTER_CONFIGS,
    ApiKey.LIST_CONFIG_RESOURCES: (Whole(Need(Op.DESCRIBE_CONFIGS, CLUSTER)),),
    ApiKey.DESCRIBE_LOG_DIRS: (DESCRIBE_CLUSTER,),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (MovedReplicas(),),
    ApiKey.ELECT_LEADERS: (
        Whole(Need(Op.ALTER, CLUSTER), parts=("replica_election_results", "topic_partitions")),
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        Whole(Need(Op.ALTER, CLUSTER), parts=("responses", "topics")),
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (DESCRIBE_CLUSTER,),
    ApiKey.DESCRIBE_QUORUM: (DESCRIBE_CLUSTER,),
    ApiKey.UPDATE_FEATURES: (Whole(Need(Op.ALTER, CLUSTER), parts=("results", "feature_updates")),),
    ApiKey.UNREGISTER_BROKER: (ALTER_CLUSTER,),
    ApiKey.DESCRIBE_ACLS: (DESCRIBE_CLUSTER,),
    ApiKey.CREATE_ACLS: (Whole(Need(Op.ALTER, CLUSTER), parts=("results", "creations")),),
    ApiKey.DELETE_ACLS: (Whole(Need(Op.ALTER, CLUSTER), parts=("filter_results", "filters")),),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (Whole(Need(Op.DESCRIBE_CONFIGS, CLUSTER)),),
    ApiKey.ALTER_CLIENT_QUOTAS: (
        Whole(Need(Op.ALTER_CONFIGS, CLUSTER), parts=("entries", "entries")),
    ),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (DESCRIBE_CLUSTER,),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (ScramUsers(),),
    ApiKey.CREATE_DELEGATION_TOKEN: (TokenOwner(),),
    ApiKey.RENEW_DELEGATION_TOKEN: (),
    ApiKey.EXPIRE_DELEGATION_TOKEN: (),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: (ShownTokens(),),
}
"""The guards of each API that a broker answers."""
