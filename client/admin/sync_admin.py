"""The admin for ordinary code: each method runs its asyncio twin on a loop in a thread."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Unpack

from ...protocol.errors import ApiError
from ...protocol.types import TopicPartition
from ..config import AdminSettings, Servers
from ..offsets import ListedOffset
from . import admin as aio_admin
from .cluster_types import ClusterDescription, FeatureMetadata, FeatureUpdate, MetadataQuorum
from .config_types import ConfigChange, ConfigEntry, ConfigResource
from .replication_admin import Partitions, Targets
from .sync_group_admin import SyncGroupAdmin
from .topic_types import (
    CreatedTopic,
    ElectionType,
    NewTopic,
    Reassignment,
    TopicDescription,
    TopicListing,
)


class Admin(SyncGroupAdmin):
    """Administers a cluster; see `minikafka.aio.Admin`.

    with Admin("localhost:9092") as admin:
        admin.create_topics([NewTopic("flights", num_partitions=6)])
    """

    def __init__(
        self, bootstrap_servers: Servers | None = None, **settings: Unpack[AdminSettings]
    ) -> None:
        super().__init__("admin", aio_admin.Admin(bootstrap_servers, **settings))

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, CreatedTopic]:
        """Create topics; with `validate_only` say whether they could be created."""
        return self._thread.run(self._twin.create_topics(topics, validate_only=validate_only))

    def delete_topics(self, names: Sequence[str]) -> None:
        """Delete topics and all their records."""
        self._thread.run(self._twin.delete_topics(names))

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise topics to so many partitions; `assignments` names brokers per new partition."""
        self._thread.run(
            self._twin.create_partitions(
                counts, assignments=assignments, validate_only=validate_only
            )
        )

    def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        """List all topics by name."""
        return self._thread.run(self._twin.list_topics(include_internal=include_internal))

    def describe_topics(self, names: Sequence[str]) -> dict[str, TopicDescription]:
        """Describe topics; AdminError names those that do not exist."""
        return self._thread.run(self._twin.describe_topics(names))

    def describe_cluster(self, *, include_fenced: bool = False) -> ClusterDescription:
        """Describe the cluster: its id, its brokers, who takes admin requests."""
        return self._thread.run(self._twin.describe_cluster(include_fenced=include_fenced))

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, keys: Sequence[str] | None = None
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Give the settings of topics and brokers, or only `keys` of them."""
        return self._thread.run(self._twin.describe_configs(list(resources), keys=keys))

    def incremental_alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change single settings of topics and brokers, leaving others as they are."""
        self._thread.run(self._twin.incremental_alter_configs(changes, validate_only=validate_only))

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], *, isolation_level: int = 0
    ) -> dict[TopicPartition, ListedOffset]:
        """Look up the first offset at or after each time in ms; -1: the end, -2: the start."""
        return self._thread.run(
            self._twin.list_offsets(timestamps, isolation_level=isolation_level)
        )

    def elect_leaders(
        self, election_type: ElectionType, partitions: Partitions | None = None
    ) -> dict[TopicPartition, ApiError | None]:
        """Elect leaders of these partitions, or of all that need it; what became of each."""
        return self._thread.run(self._twin.elect_leaders(election_type, partitions))

    def alter_partition_reassignments(
        self, targets: Targets, *, allow_replication_factor_change: bool = True
    ) -> None:
        """Begin to move partitions to these brokers, preferred leader first; None cancels."""
        self._thread.run(
            self._twin.alter_partition_reassignments(
                targets, allow_replication_factor_change=allow_replication_factor_change
            )
        )

    def list_partition_reassignments(
        self, partitions: Partitions | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Find which of these partitions, or of all, are moving, and where to."""
        return self._thread.run(self._twin.list_partition_reassignments(partitions))

    def describe_metadata_quorum(self) -> MetadataQuorum:
        """Describe the controllers' quorum: who leads, who votes, how far each is."""
        return self._thread.run(self._twin.describe_metadata_quorum())

    def describe_features(self) -> FeatureMetadata:
        """Give the levels of features: finalised in the cluster, supported by one broker."""
        return self._thread.run(self._twin.describe_features())

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> None:
        """Finalise levels of features, all or none; AdminError says why not."""
        self._thread.run(self._twin.update_features(updates, validate_only=validate_only))

    def unregister_broker(self, broker_id: int) -> None:
        """Have the cluster forget a broker that will not come back; ApiError if it knows none."""
        self._thread.run(self._twin.unregister_broker(broker_id))
