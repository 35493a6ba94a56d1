"""The synchronous admin: each method runs a method of the asyncio admin on a loop in a thread."""

from typing import Unpack

from ..config import AdminConfig, AdminSettings, Servers
from ..sync_loop import SyncClient, waited
from . import admin as aio


class Admin(SyncClient[aio.Admin]):
    """Administers a cluster; `minikafka.aio.Admin` is the same for asyncio.

        with Admin("localhost:9092") as admin:
            admin.create_topics([NewTopic("flights", num_partitions=6)])

    A call raises RequestTimedOut after default_api_timeout_ms, unless its page says otherwise. If a
    call changes or describes several things and some of them are refused, the others are done, and
    AdminError names the refused ones.
    """

    def __init__(
        self, bootstrap_servers: Servers | None = None, **settings: Unpack[AdminSettings]
    ) -> None:
        super().__init__("admin", aio.Admin(bootstrap_servers, **settings))

    @property
    def config(self) -> AdminConfig:
        """The settings of this admin."""
        return self._twin.config

    client_instance_id = waited(aio.Admin.client_instance_id)

    create_topics = waited(aio.Admin.create_topics)
    delete_topics = waited(aio.Admin.delete_topics)
    create_partitions = waited(aio.Admin.create_partitions)
    list_topics = waited(aio.Admin.list_topics)
    describe_topics = waited(aio.Admin.describe_topics)

    describe_cluster = waited(aio.Admin.describe_cluster)
    unregister_broker = waited(aio.Admin.unregister_broker)
    describe_api_versions = waited(aio.Admin.describe_api_versions)
    describe_features = waited(aio.Admin.describe_features)
    update_features = waited(aio.Admin.update_features)
    describe_metadata_quorum = waited(aio.Admin.describe_metadata_quorum)

    describe_configs = waited(aio.Admin.describe_configs)
    incremental_alter_configs = waited(aio.Admin.incremental_alter_configs)
    alter_configs = waited(aio.Admin.alter_configs)
    list_config_resources = waited(aio.Admin.list_config_resources)

    describe_acls = waited(aio.Admin.describe_acls)
    create_acls = waited(aio.Admin.create_acls)
    delete_acls = waited(aio.Admin.delete_acls)
    describe_scram_credentials = waited(aio.Admin.describe_scram_credentials)
    alter_scram_credentials = waited(aio.Admin.alter_scram_credentials)
    create_delegation_token = waited(aio.Admin.create_delegation_token)
    renew_delegation_token = waited(aio.Admin.renew_delegation_token)
    expire_delegation_token = waited(aio.Admin.expire_delegation_token)
    describe_delegation_tokens = waited(aio.Admin.describe_delegation_tokens)
    describe_client_quotas = waited(aio.Admin.describe_client_quotas)
    alter_client_quotas = waited(aio.Admin.alter_client_quotas)

    elect_leaders = waited(aio.Admin.elect_leaders)
    alter_partition_reassignments = waited(aio.Admin.alter_partition_reassignments)
    list_partition_reassignments = waited(aio.Admin.list_partition_reassignments)

    list_offsets = waited(aio.Admin.list_offsets)
    delete_records = waited(aio.Admin.delete_records)
    list_delayed = waited(aio.Admin.list_delayed)
    describe_delayed = waited(aio.Admin.describe_delayed)
    cancel_delayed = waited(aio.Admin.cancel_delayed)
    reschedule_delayed = waited(aio.Admin.reschedule_delayed)
    describe_forwarding = waited(aio.Admin.describe_forwarding)
    refire_forwarded = waited(aio.Admin.refire_forwarded)
    describe_log_dirs = waited(aio.Admin.describe_log_dirs)
    alter_replica_log_dirs = waited(aio.Admin.alter_replica_log_dirs)
    read_replicas = waited(aio.Admin.read_replicas)
    describe_replicas = waited(aio.Admin.describe_replicas)

    list_groups = waited(aio.Admin.list_groups)
    describe_groups = waited(aio.Admin.describe_groups)
    delete_groups = waited(aio.Admin.delete_groups)
    remove_members = waited(aio.Admin.remove_members)
    list_group_offsets = waited(aio.Admin.list_group_offsets)
    alter_group_offsets = waited(aio.Admin.alter_group_offsets)
    delete_group_offsets = waited(aio.Admin.delete_group_offsets)
    describe_group_lag = waited(aio.Admin.describe_group_lag)
    describe_lag = waited(aio.Admin.describe_lag)

    list_transactions = waited(aio.Admin.list_transactions)
    describe_transactions = waited(aio.Admin.describe_transactions)
    fence_producers = waited(aio.Admin.fence_producers)
    describe_producers = waited(aio.Admin.describe_producers)
    abort_transaction = waited(aio.Admin.abort_transaction)

    init_commit_group = waited(aio.Admin.init_commit_group)
    commit_group = waited(aio.Admin.commit_group)
    end_prepared = waited(aio.Admin.end_prepared)
