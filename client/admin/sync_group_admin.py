"""The admin for ordinary code, its part about groups, transactions and logs."""

from collections.abc import Iterable, Mapping, Sequence

from ...protocol.messages.describe_configs import ResourceType
from ...protocol.types import TopicPartition
from ..group_types import CommitGroupState, OffsetAndMetadata, PreparedTransaction
from ..sync_loop import SyncClient
from . import admin as aio_admin
from .config_types import ConfigResource
from .group_types import GroupDescription, GroupListing
from .log_types import LogDirectory
from .transaction_types import (
    ActiveProducer,
    FencedProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)


class SyncGroupAdmin(SyncClient[aio_admin.Admin]):
    """What an admin can ask about groups, transactions and logs; see `minikafka.aio.Admin`."""

    # -- groups

    def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        """List groups by name, of all brokers; only in these states and of these types."""
        return self._thread.run(self._twin.list_groups(states=states, types=types))

    def describe_groups(self, group_ids: Iterable[str]) -> dict[str, GroupDescription]:
        """Describe groups; AdminError names those that do not exist."""
        return self._thread.run(self._twin.describe_groups(group_ids))

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, and their offsets; AdminError names those refused."""
        self._thread.run(self._twin.delete_groups(group_ids))

    def remove_members(
        self,
        group_id: str,
        *,
        instance_ids: Iterable[str] | None = None,
        reason: str = "removed by an admin",
    ) -> None:
        """Send static members away, or all members; AdminError names those that are not there."""
        self._thread.run(
            self._twin.remove_members(group_id, instance_ids=instance_ids, reason=reason)
        )

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Give what a group has committed, in these partitions or in all."""
        return self._thread.run(
            self._twin.list_group_offsets(group_id, partitions, require_stable=require_stable)
        )

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Commit offsets for a group without members; AdminError names partitions refused."""
        self._thread.run(self._twin.alter_group_offsets(group_id, offsets))

    def delete_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget a group's offsets in partitions that it does not read any more."""
        self._thread.run(self._twin.delete_group_offsets(group_id, partitions))

    # -- transactions

    def list_transactions(
        self,
        *,
        states: Sequence[str] = (),
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """List transactional ids by name; only those that pass every filter."""
        return self._thread.run(
            self._twin.list_transactions(
                states=states,
                producer_ids=producer_ids,
                longer_than_ms=longer_than_ms,
                pattern=pattern,
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Describe transactional ids; AdminError names those that do not exist."""
        return self._thread.run(self._twin.describe_transactions(transactional_ids))

    def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, FencedProducer]:
        """Fence the producers of these ids and abort their transactions; gives the new epochs."""
        return self._thread.run(self._twin.fence_producers(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        """List the producers that partitions know, as their leaders or one broker see it."""
        return self._thread.run(self._twin.describe_producers(partitions, broker_id=broker_id))

    def abort_transaction(self, transaction: OpenTransaction) -> None:
        """Write an abort marker on one partition, for a transaction that no coordinator ends."""
        self._thread.run(self._twin.abort_transaction(transaction))

    # -- commit groups

    def init_commit_group(self, group: str, run: str) -> CommitGroupState:
        """Take a group over for a run of its work, which fences the runs before."""
        return self._thread.run(self._twin.init_commit_group(group, run))

    def commit_group(
        self,
        group: str,
        generation: int,
        batch_id: int,
        transactions: Iterable[PreparedTransaction],
    ) -> bool:
        """Commit prepared transactions and record their batch, all or nothing.

        False: this batch, or a later one, is recorded already. As `minikafka.aio.Admin`.
        """
        return self._thread.run(
            self._twin.commit_group(group, generation, batch_id, list(transactions))
        )

    def end_prepared(
        self, transaction: PreparedTransaction, *, commit: bool, timeout_ms: int | None = None
    ) -> None:
        """Commit or abort one prepared transaction by itself, which any cluster can."""
        self._thread.run(self._twin.end_prepared(transaction, commit=commit, timeout_ms=timeout_ms))

    # -- logs

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete everything before these offsets, -1: all; gives where the logs begin now."""
        return self._thread.run(self._twin.delete_records(offsets))

    def describe_log_dirs(
        self,
        broker_ids: Iterable[int] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[int, dict[str, LogDirectory]]:
        """Describe the directories of these brokers or all, by broker and path."""
        return self._thread.run(self._twin.describe_log_dirs(broker_ids, partitions))

    def alter_configs(
        self,
        configs: Mapping[ConfigResource, Mapping[str, str]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Replace whole configurations: what is not named goes back to its default."""
        self._thread.run(self._twin.alter_configs(configs, validate_only=validate_only))

    def list_config_resources(self, types: Sequence[ResourceType] = ()) -> list[ConfigResource]:
        """List what has settings of its own, of these types or of all."""
        return self._thread.run(self._twin.list_config_resources(types))
