"""An admin that keeps a small cluster in memory and notes what it is asked."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from minikafka.client.admin.cluster_types import (
    BrokerDescription,
    ClusterDescription,
    FeatureMetadata,
    FeatureUpdate,
    MetadataQuorum,
)
from minikafka.client.admin.config_types import ConfigChange, ConfigEntry, ConfigResource
from minikafka.client.admin.credential_types import ScramChange
from minikafka.client.admin.log_types import LogDirectory
from minikafka.client.admin.quota_types import QuotaEntity
from minikafka.client.admin.topic_types import (
    ElectionType,
    PartitionDescription,
    Reassignment,
    TopicDescription,
    TopicListing,
)
from minikafka.client.errors import AdminError
from minikafka.protocol.client_metrics import ClientMetricsConfig
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.describe_configs import ConfigSource, ResourceType
from minikafka.protocol.messages.incremental_alter_configs import ConfigOperation
from minikafka.protocol.schema import Versions
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.config import Setting, settings_of

SUBSCRIPTION_ROWS = settings_of(ClientMetricsConfig)


class FakeAdmin:
    """Brokers 1 to 4; `asked` is what it was asked to change, in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.racks: dict[int, str | None] = dict.fromkeys(range(1, 5))
        self.placement: dict[TopicPartition, tuple[int, ...]] = {}
        self.moving: dict[TopicPartition, Reassignment] = {}
        self.elections: dict[TopicPartition, ApiError | None] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.refused: dict[str, ApiError] = {}
        self.quorum: MetadataQuorum | ApiError = ApiError(ErrorCode.NOT_CONTROLLER)
        self.features = FeatureMetadata({}, {})
        self.fenced: list[int] = []
        self.credentials: dict[str, dict[str, int]] = {}
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.apis: dict[int, dict[int, Versions] | ApiError] = {}
        self.settings: Mapping[str, str] = {}

    async def alter_scram_credentials(self, changes: Iterable[ScramChange]) -> None:
        for change in changes:
            known = self.credentials.setdefault(change.user, {})
            if change.password is None:
                del known[change.mechanism]
            else:
                known[change.mechanism] = change.iterations
                made = (change.mechanism, change.password, change.iterations)
                self.asked.append(("scram", change.user, *made))

    async def describe_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, int]]:
        known = self.credentials
        unknown = [name for name in users or () if name not in known]
        if unknown:
            raise AdminError({name: ApiError(ErrorCode.RESOURCE_NOT_FOUND) for name in unknown})
        return {name: known[name] for name in users or known}

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]
    ) -> None:
        for entity, quotas in changes.items():
            self.asked.append(("quotas", entity, dict(quotas)))
            now = {**self.quotas.get(entity, {}), **quotas}
            self.quotas[entity] = {k: value for k, value in now.items() if value is not None}

    async def describe_client_quotas(
        self, parts: Mapping[str, str | None], *, strict: bool
    ) -> dict[QuotaEntity, dict[str, float]]:
        assert strict
        return {
            entity: quotas
            for entity, quotas in self.quotas.items()
            if quotas and entity.parts.keys() == parts.keys()
            if all(
                name is None or (entity.parts[kind] or "") == name for kind, name in parts.items()
            )
        }

    def from_config(self, settings: Mapping[str, str]) -> Self:
        self.settings = settings
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None: ...

    async def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        brokers = [
            BrokerDescription(i, "h", 9092 + i, rack, i in self.fenced)
            for i, rack in self.racks.items()
            if include_fenced or i not in self.fenced
        ]
        return ClusterDescription("a-cluster", 1, tuple(brokers))

    async def describe_api_versions(
        self, broker_ids: Iterable[int]
    ) -> dict[int, dict[int, Versions] | ApiError]:
        return {broker: self.apis[broker] for broker in broker_ids}

    async def unregister_broker(self, broker_id: int) -> None:
        self.asked.append(("unregister", broker_id))
        if broker_id not in self.racks:
            why = f"Broker ID {broker_id} is not currently registered"
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, why)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        names = sorted({partition.topic: None for partition in self.placement})
        return [TopicListing(name, name, False) for name in names]

    async def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        described: dict[str, TopicDescription] = {}
        for name in names:
            partitions = tuple(
                PartitionDescription(where.partition, replicas[0], 0, replicas, replicas)
                for where, replicas in self.placement.items()
                if where.topic == name
            )
            if not partitions:
                raise AdminError({name: ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)})
            described[name] = TopicDescription(name, name, False, partitions)
        return described

    async def describe_log_dirs(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, dict[str, LogDirectory]]:
        return {broker: {} for broker in broker_ids}

    async def elect_leaders(
        self, kind: ElectionType, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, ApiError | None]:
        self.asked.append(("elect", kind, partitions))
        return self.elections

    async def alter_partition_reassignments(
        self,
        targets: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        self.asked.append(("reassign", dict(targets), allow_replication_factor_change))
        if self.refused:
            raise AdminError(self.refused)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        wanted = self.moving if partitions is None else list(partitions)
        return {where: one for where, one in self.moving.items() if where in wanted}

    async def describe_metadata_quorum(self) -> MetadataQuorum:
        if isinstance(self.quorum, ApiError):
            raise self.quorum
        return self.quorum

    async def describe_features(self) -> FeatureMetadata:
        return self.features

    async def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        self.asked.append(("features", dict(updates), validate_only))
        if self.refused:
            raise AdminError(self.refused)

    async def describe_configs(
        self, resources: Sequence[ConfigResource]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        return {resource: self._entries(resource) for resource in resources}

    def _entries(self, resource: ConfigResource) -> dict[str, ConfigEntry]:
        source = ConfigSource.TOPIC_CONFIG
        if resource.type is ResourceType.BROKER_LOGGER:
            source = ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG
            levels = self.configs.get(resource, {}).items()
            return {key: ConfigEntry(key, value, source, False, False) for key, value in levels}
        if resource.type is ResourceType.CLIENT_METRICS:
            return {row.key: self._of_subscription(resource, row) for row in SUBSCRIPTION_ROWS}
        if resource.type is ResourceType.BROKER:
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
            if resource.name:
                source = ConfigSource.DYNAMIC_BROKER_CONFIG
        entries = {
            "min.insync.replicas": ConfigEntry(
                "min.insync.replicas", "1", ConfigSource.DEFAULT_CONFIG, False, False
            )
        }
        for key, value in self.configs.get(resource, {}).items():
            below = ((key, value, source), (f"log.{key}", "9", ConfigSource.DEFAULT_CONFIG))
            entries[key] = ConfigEntry(key, value, source, False, False, synonyms=below)
        return entries

    def _of_subscription(self, resource: ConfigResource, row: Setting) -> ConfigEntry:
        default, source = row.format(row.default), ConfigSource.DEFAULT_CONFIG
        value = self.configs.get(resource, {}).get(row.key)
        if value is not None:
            source = ConfigSource.CLIENT_METRICS_CONFIG
        return ConfigEntry(row.key, default if value is None else value, source, False, False)

    async def list_config_resources(
        self, types: Sequence[ResourceType] = ()
    ) -> list[ConfigResource]:
        return sorted(one for one, config in self.configs.items() if config and one.type in types)

    async def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Sequence[ConfigChange]]
    ) -> None:
        for resource, wanted in changes.items():
            config = self.configs.setdefault(resource, {})
            for change in wanted:
                if change.operation is ConfigOperation.DELETE:
                    config.pop(change.name, None)
                else:
                    assert change.value is not None
                    config[change.name] = change.value
        self.asked.append(("configs", *(str(resource) for resource in changes)))
