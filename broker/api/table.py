"""The dispatch table: every API of this broker, Kafka's and our own, with its handler.

ApiVersions advertises the APIs of this table. Their versions come from the message declarations.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...protocol.api import ApiKey
from ...protocol.codec import request_class
from ...protocol.schema import shape_of
from ...security.permissions.table import TABLE
from ..edge import Edge
from ..net.answer import Api
from . import (
    acls,
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    alter_replica_log_dirs,
    audit_events,
    client_quotas,
    client_telemetry,
    commit_group,
    delayed,
    delete_groups,
    delete_records,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_lag,
    describe_log_dirs,
    describe_producers,
    describe_replicas,
    describe_topic_partitions,
    describe_transactions,
    end_txn,
    find_coordinator,
    forward_records,
    forwarded,
    heartbeat,
    init_commit_group,
    init_producer_id,
    join_group,
    leave_group,
    list_config_resources,
    list_groups,
    list_offsets,
    list_transactions,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    produce_repeat,
    sasl,
    scram,
    sync_group,
    tokens,
    txn_offset_commit,
    write_trace,
    write_txn_markers,
)
from .api_versions import ApiVersions
from .fetch import Fetch
from .fetch_sessions import FetchSessions
from .guarded import guarded
from .metadata import Metadata

HANDLERS: Final[Mapping[ApiKey, Callable[..., object]]] = {
    # Records, topics, the cluster.
    ApiKey.PRODUCE: produce.handle,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.CREATE_TOPICS: forwarded.create_topics,
    ApiKey.DELETE_TOPICS: forwarded.delete_topics,
    **forwarded.AS_THEY_ARE,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs.incremental_alter_configs,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: describe_topic_partitions.handle,
    ApiKey.DESCRIBE_LOG_DIRS: describe_log_dirs.handle,
    ApiKey.ALTER_REPLICA_LOG_DIRS: alter_replica_log_dirs.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.ALTER_CONFIGS: alter_configs.alter_configs,
    ApiKey.LIST_CONFIG_RESOURCES: list_config_resources.handle,
    # Our own APIs, for monitoring.
    ApiKey.DESCRIBE_REPLICAS: describe_replicas.handle,
    ApiKey.DESCRIBE_LAG: describe_lag.handle,
    # Access control entries.
    ApiKey.DESCRIBE_ACLS: acls.describe_acls,
    ApiKey.CREATE_ACLS: acls.create_acls,
    ApiKey.DELETE_ACLS: acls.delete_acls,
    # Client quotas and credentials.
    ApiKey.DESCRIBE_CLIENT_QUOTAS: client_quotas.describe,
    ApiKey.ALTER_CLIENT_QUOTAS: client_quotas.alter,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: scram.describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: scram.alter,
    # Delegation tokens.
    ApiKey.CREATE_DELEGATION_TOKEN: tokens.create,
    ApiKey.RENEW_DELEGATION_TOKEN: tokens.renew,
    ApiKey.EXPIRE_DELEGATION_TOKEN: tokens.expire,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: tokens.describe,
    # Logins that no listener asks for; the others are handled by `net/authentication.py`.
    ApiKey.SASL_HANDSHAKE: sasl.handshake,
    ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
    # Groups.
    ApiKey.FIND_COORDINATOR: find_coordinator.handle,
    ApiKey.JOIN_GROUP: join_group.handle,
    ApiKey.SYNC_GROUP: sync_group.handle,
    ApiKey.HEARTBEAT: heartbeat.handle,
    ApiKey.LEAVE_GROUP: leave_group.handle,
    ApiKey.OFFSET_COMMIT: offset_commit.handle,
    ApiKey.OFFSET_FETCH: offset_fetch.handle,
    ApiKey.OFFSET_DELETE: offset_delete.handle,
    ApiKey.LIST_GROUPS: list_groups.handle,
    ApiKey.DESCRIBE_GROUPS: describe_groups.handle,
    ApiKey.DELETE_GROUPS: delete_groups.handle,
    ApiKey.TXN_OFFSET_COMMIT: txn_offset_commit.handle,
    # Transactions, asked of their coordinator.
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions_to_txn.handle,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets_to_txn.handle,
    ApiKey.END_TXN: end_txn.handle,
    ApiKey.DESCRIBE_TRANSACTIONS: describe_transactions.handle,
    ApiKey.LIST_TRANSACTIONS: list_transactions.handle,
    # Transactions, between brokers; commit groups.
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers.handle,
    ApiKey.FORWARD_RECORDS: forward_records.handle,
    ApiKey.AUDIT_EVENTS: audit_events.handle,
    ApiKey.WRITE_TRACE: write_trace.handle,
    ApiKey.LIST_DELAYED: delayed.list_delayed,
    ApiKey.ALTER_DELAYED: delayed.alter_delayed,
    ApiKey.DESCRIBE_FORWARDING: delayed.describe_forwarding,
    ApiKey.REFIRE_FORWARDED: delayed.refire_forwarded,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers.handle,
    ApiKey.INIT_COMMIT_GROUP: init_commit_group.handle,
    ApiKey.COMMIT_GROUP: commit_group.handle,
}
"""The handler of each API, except the handlers with state, which `make_apis` adds."""
OF_TELEMETRY: Final[Mapping[ApiKey, Callable[..., object]]] = {
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: client_telemetry.get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: client_telemetry.push_telemetry,
}
"""The handlers of the APIs that only a broker with metrics has."""
WITH_STATE: Final = (ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS)
SPOKEN: Final = (*HANDLERS, *OF_TELEMETRY, *WITH_STATE)
"""Every API that a broker answers if it serves metrics."""


def make_apis(edge: Edge, sessions: FetchSessions) -> Mapping[int, Api]:
    """Make the dispatch table of one broker, whose Fetch handler uses these sessions.

    If the broker has an authorizer, the guards of each API stand before its handler.
    """
    plain = HANDLERS if edge.telemetry is None else {**HANDLERS, **OF_TELEMETRY}
    fetch, metadata, versions = Fetch(sessions), Metadata(), ApiVersions((*plain, *WITH_STATE))
    rows: dict[ApiKey, Callable[..., object]] = {
        **plain,
        ApiKey.FETCH: fetch.handle,
        ApiKey.METADATA: metadata.handle,
    }
    if edge.authorizer is not None:
        rows = {key: guarded(handle, TABLE[key]) for key, handle in rows.items()}
    apis = {int(key): _api(key, handle) for key, handle in rows.items()}
    of_versions = _api(ApiKey.API_VERSIONS, versions.handle)
    apis[int(ApiKey.API_VERSIONS)] = of_versions._replace(refuse_version=versions.refuse)
    produced = apis[int(ApiKey.PRODUCE)]
    apis[int(ApiKey.PRODUCE)] = produced._replace(repeats=produce_repeat.Patterns)
    return apis


def _api(key: ApiKey, handle: Callable[[Any, Any], object]) -> Api:
    request = request_class(key)
    spoken = shape_of(request).versions
    return Api(request, spoken.first, spoken.last, handle)
