"""The asyncio admin: one method for each query about a cluster, and for each change of it."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from ...runtime.runtime import Runtime, SystemRuntime
from ..config import AdminConfig, AdminSettings, Servers, configured
from ..methods import made_like
from ..telemetry.reporter import INSTANCE_ID_TIMEOUT_MS
from . import (
    acls,
    cluster,
    commit_groups,
    configs,
    credentials,
    delayed,
    group_offsets,
    groups,
    lag,
    logs,
    quorum,
    quotas,
    replica_reads,
    replicas,
    replication,
    tokens,
    topics,
    transactions,
)
from .asking import Asking

P = ParamSpec("P")
T = TypeVar("T")


def asked(
    call: Callable[Concatenate[Asking, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["Admin", P], Coroutine[Any, Any, T]]:
    """Make a method of Admin that awaits `call`, with its parameters and docstring."""

    async def method(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await call(self._asking, *args, **kwargs)

    return made_like(call, method)


class Admin:
    """Administers a cluster.

        async with Admin("localhost:9092") as admin:
            await admin.create_topics([NewTopic("flights", num_partitions=6)])

    A call raises RequestTimedOut after default_api_timeout_ms, unless its page says otherwise. If a
    call changes or describes several things and some of them are refused, the others are done, and
    AdminError names the refused ones.
    """

    def __init__(
        self,
        bootstrap_servers: Servers | None = None,
        *,
        runtime: Runtime | None = None,
        **settings: Unpack[AdminSettings],
    ) -> None:
        self.config = configured(AdminConfig, bootstrap_servers, settings)
        self._asking = Asking(runtime or SystemRuntime("admin"), self.config)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **arguments: Any) -> Self:
        """Make an admin from settings under Kafka's dotted names, such as `client.id`.

        The keyword arguments are those of `__init__`.
        """
        return cls(**dict(config), **arguments)

    async def start(self) -> Self:
        """Connect to the cluster, as `async with` does.

        Raise BootstrapError after bootstrap_timeout_ms.
        """
        await self._asking.start()
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *reason: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect; calls under way fail, and later ones raise ClientClosed."""
        await self._asking.close()

    @property
    def is_closed(self) -> bool:
        """True once the client is closed, or its start has failed."""
        return self._asking.is_closed

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the admin's connections, by the names that Kafka's admin uses.

        Totals count from the admin's creation. Rates, averages and maxima cover the last 30 to 60
        seconds; averages and maxima are NaN if there was nothing in that time.
        """
        return self._asking.metrics()

    async def client_instance_id(self, *, timeout_ms: int = INSTANCE_ID_TIMEOUT_MS) -> str:
        """Return the id that a broker gave to this client for its metrics (KIP-714).

        It identifies the client in the metrics that the client pushes. Raise ValueError if
        enable.metrics.push is false, RequestTimedOut if no broker has given one in `timeout_ms`.
        """
        self._asking.check_open()
        return await self._asking.reporter.instance_id(timeout_ms)

    create_topics = asked(topics.create_topics)
    delete_topics = asked(topics.delete_topics)
    create_partitions = asked(topics.create_partitions)
    list_topics = asked(topics.list_topics)
    describe_topics = asked(topics.describe_topics)

    describe_cluster = asked(cluster.describe_cluster)
    unregister_broker = asked(cluster.unregister_broker)
    describe_api_versions = asked(cluster.describe_api_versions)
    describe_features = asked(cluster.describe_features)
    update_features = asked(cluster.update_features)
    describe_metadata_quorum = asked(quorum.describe_metadata_quorum)

    describe_configs = asked(configs.describe_configs)
    incremental_alter_configs = asked(configs.incremental_alter_configs)
    alter_configs = asked(configs.alter_configs)
    list_config_resources = asked(configs.list_config_resources)

    describe_acls = asked(acls.describe_acls)
    create_acls = asked(acls.create_acls)
    delete_acls = asked(acls.delete_acls)
    describe_scram_credentials = asked(credentials.describe_scram_credentials)
    alter_scram_credentials = asked(credentials.alter_scram_credentials)
    create_delegation_token = asked(tokens.create_delegation_token)
    renew_delegation_token = asked(tokens.renew_delegation_token)
    expire_delegation_token = asked(tokens.expire_delegation_token)
    describe_delegation_tokens = asked(tokens.describe_delegation_tokens)
    describe_client_quotas = asked(quotas.describe_client_quotas)
    alter_client_quotas = asked(quotas.alter_client_quotas)

    elect_leaders = asked(replication.elect_leaders)
    alter_partition_reassignments = asked(replication.alter_partition_reassignments)
    list_partition_reassignments = asked(replication.list_partition_reassignments)

    list_offsets = asked(logs.list_offsets)
    delete_records = asked(logs.delete_records)
    list_delayed = asked(delayed.list_delayed)
    describe_delayed = asked(delayed.describe_delayed)
    cancel_delayed = asked(delayed.cancel_delayed)
    reschedule_delayed = asked(delayed.reschedule_delayed)
    describe_forwarding = asked(delayed.describe_forwarding)
    refire_forwarded = asked(delayed.refire_forwarded)
    describe_log_dirs = asked(logs.describe_log_dirs)
    alter_replica_log_dirs = asked(logs.alter_replica_log_dirs)
    read_replicas = asked(replica_reads.read_replicas)
    describe_replicas = asked(replicas.describe_replicas)

    list_groups = asked(groups.list_groups)
    describe_groups = asked(groups.describe_groups)
    delete_groups = asked(groups.delete_groups)
    remove_members = asked(groups.remove_members)
    list_group_offsets = asked(group_offsets.list_group_offsets)
    alter_group_offsets = asked(group_offsets.alter_group_offsets)
    delete_group_offsets = asked(group_offsets.delete_group_offsets)
    describe_group_lag = asked(lag.describe_group_lag)
    describe_lag = asked(lag.describe_lag)

    list_transactions = asked(transactions.list_transactions)
    describe_transactions = asked(transactions.describe_transactions)
    fence_producers = asked(transactions.fence_producers)
    describe_producers = asked(transactions.describe_producers)
    abort_transaction = asked(transactions.abort_transaction)

    init_commit_group = asked(commit_groups.init_commit_group)
    commit_group = asked(commit_groups.commit_group)
    end_prepared = asked(commit_groups.end_prepared)
