"""A consumer's membership in its group: the topics that it wants, and the assignment of partitions.

`MemberLoop` sends the requests. If the member is the group's leader, `Leading` computes the
assignment. Never changes positions: the consumer's poll carries out a pending `Change`, and wakes
the loop.
"""

from collections.abc import Iterable, Sequence

from ...protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_subscription,
)
from ...protocol.messages.join_group import JoinGroupRequestProtocol
from ...protocol.messages.sync_group import SyncGroupRequestAssignment
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..config import ConsumerConfig
from ..coordinator import Coordinator
from ..metadata import Metadata
from .assignors import ASSIGNORS, Assignor
from .consumer_metrics import ConsumerMetrics
from .leading import Leading, as_written
from .member_loop import MemberLimits, MemberLoop
from .membership import Join, Joined, Membership, Stage, Terms


class _Consuming:
    """The role of a consumer: partitions of topics are shared out, by Kafka's assignors."""

    protocol_type = PROTOCOL_TYPE

    def __init__(
        self, config: ConsumerConfig, membership: Membership, assignors: Sequence[Assignor]
    ) -> None:
        self.topics: tuple[str, ...] = ()
        self.leading: Leading
        self._config = config
        self._membership = membership
        self._assignors = assignors

    def protocols(self, step: Join) -> list[JoinGroupRequestProtocol]:
        """Return the assignors, each with the topics and what the member owns."""
        self.leading.resign()
        return [
            JoinGroupRequestProtocol(name=one.name, metadata=self._subscription(one, step))
            for one in self._assignors
        ]

    async def share_out(self, joined: Joined) -> list[SyncGroupRequestAssignment]:
        """Compute the partitions of each member."""
        return await self.leading.share_out(joined)

    def assigned(self, assignment: bytes) -> list[TopicPartition]:
        """Return the partitions of an assignment."""
        given = decode_assignment(assignment).assigned_partitions
        return [TopicPartition(one.topic, index) for one in given for index in one.partitions]

    def _subscription(self, assignor: Assignor, step: Join) -> bytes:
        membership = self._membership
        owned: Sequence[TopicPartition] = tuple(membership.owned)
        generation = step.generation
        if assignor.is_cooperative:
            user_data = assignor.user_data(owned, generation)
        else:
            user_data = assignor.user_data(membership.last_owned, membership.last_generation)
        return encode_subscription(
            ConsumerProtocolSubscription(
                topics=list(self.topics),
                user_data=user_data,
                owned_partitions=as_written(owned),
                generation_id=generation,
                rack_id=self._config.client_rack or None,
            )
        )


class Group(MemberLoop):
    """The task that keeps one consumer a member of its group, from `start` to `leave`."""

    def __init__(
        self,
        runtime: Runtime,
        config: ConsumerConfig,
        metadata: Metadata,
        coordinator: Coordinator,
        metrics: ConsumerMetrics,
    ) -> None:
        assignors = [ASSIGNORS[name] for name in config.partition_assignment_strategy]
        membership = Membership(
            Terms(
                group_instance_id=config.group_instance_id,
                is_cooperative=all(one.is_cooperative for one in assignors),
                heartbeat_interval_ms=config.heartbeat_interval_ms,
                max_poll_interval_ms=config.max_poll_interval_ms,
            )
        )
        limits = MemberLimits(
            config.session_timeout_ms,
            config.max_poll_interval_ms,
            config.request_timeout_ms,
            config.group_instance_id,
        )
        super().__init__(runtime, membership, coordinator, limits, metrics)
        self._consuming = _Consuming(config, membership, assignors)
        self._leading = self._consuming.leading = Leading(metadata)
        self.role = self._consuming

    def on_poll(self) -> None:
        """Wake the loop, unless the member is stable, because a poll has begun or ended."""
        if self.membership.stage is not Stage.STABLE:
            self._wake.set()

    def on_topics(self, topics: Iterable[str], reason: str) -> None:
        """Set the topics to read; the member joins again with `reason` if they have changed."""
        self._consuming.topics = tuple(sorted(topics))
        self.membership.on_topics(self._consuming.topics, reason)
        self._wake.set()

    def on_metadata(self) -> None:
        """Join again if this member leads and the partition count of a topic has changed."""
        why = self._leading.what_changed()
        if why is not None:
            self.membership.request_rejoin(why)
            self._wake.set()
