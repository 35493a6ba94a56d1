"""The group leader's work: compute the assignment, and notice when it must be computed anew.

Decodes the members' subscriptions and encodes their assignments, in Kafka's consumer protocol.
Sends nothing to the coordinator.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from ...protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    TopicPartitions,
    decode_subscription,
    encode_assignment,
)
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.messages.sync_group import SyncGroupRequestAssignment
from ...protocol.types import TopicPartition
from ..metadata import Metadata
from ..partitions import by_topic
from .assignors import ASSIGNORS, Assignor, Member
from .membership import Joined, JoinedMember

log = logging.getLogger(__name__)

TOPICS_WAIT_MS: Final = 5_000
"""The ms that a leader waits for metadata of the topics that other members read."""
ASSIGNMENT_VERSION: Final = 0
"""The version in which assignments are written; every client reads it, later ones add nothing."""


class Leading:
    """Computes assignments, and keeps the partition counts that the newest one was based on."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._counts: dict[str, int] | None = None
        """The partition counts of the newest assignment, by topic; None unless a leader."""

    def resign(self) -> None:
        """Forget the counts, because a new generation begins and may have another leader."""
        self._counts = None

    def what_changed(self) -> str | None:
        """Return the reason for a rebalance, once, if the partition count of a topic changed.

        A missing topic is no reason, because brokers that lag behind do not know new topics.
        """
        for topic, count in (self._counts or {}).items():
            found = len(self._metadata.view.partitions_of(topic) or ())
            if found not in (0, count):
                self._counts = None
                return f"{topic} has {found} partitions, {count} when they were assigned"
        return None

    async def share_out(self, joined: Joined) -> list[SyncGroupRequestAssignment]:
        """Compute the partitions of each member; empty if the old assignment is kept (KIP-814).

        Raise RemoteProtocolError if the group chose an assignor that this client does not have.
        """
        assignor = ASSIGNORS.get(joined.protocol)
        if assignor is None:
            raise RemoteProtocolError(f"the coordinator chose {joined.protocol!r}, not one of ours")
        members = [_as_member(one, assignor) for one in joined.members]
        topics = sorted({topic for member in members for topic in member.topics})
        await self._learn_of(topics)
        found = {topic: self._metadata.view.partitions_of(topic) for topic in topics}
        self._counts = {topic: len(partitions or ()) for topic, partitions in found.items()}
        if joined.skips_assignment:
            return []
        given = assignor.assign(self._counts, members)
        log.debug("generation %d: %s gives %s", joined.generation, assignor.name, given)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(
                    ConsumerProtocolAssignment(assigned_partitions=as_written(partitions)),
                    ASSIGNMENT_VERSION,
                ),
            )
            for member_id, partitions in given.items()
        ]

    async def _learn_of(self, topics: Sequence[str]) -> None:
        for topic in topics:
            self._metadata.watch(topic)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TOPICS_WAIT_MS / 1000):
                while any(
                    topic not in self._metadata.view.topics
                    and self._metadata.error_of(topic) is ErrorCode.NONE
                    for topic in topics
                ):
                    await self._metadata.wait_until_refreshed()


def _as_member(joined: JoinedMember, assignor: Assignor) -> Member:
    try:
        said = decode_subscription(joined.metadata)
    except RemoteProtocolError as error:
        log.warning("member %s says what nobody understands: %s", joined.member_id, error)
        return Member(joined.member_id, ())
    owned = tuple(
        TopicPartition(one.topic, index)
        for one in said.owned_partitions
        for index in one.partitions
    )
    member = Member(
        joined.member_id, tuple(said.topics), owned, said.generation_id, joined.group_instance_id
    )
    return assignor.read_user_data(
        member, None if said.user_data is None else bytes(said.user_data)
    )


def as_written(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Group the partitions by topic, as the consumer protocol encodes them."""
    return [TopicPartitions(topic=t, partitions=p) for t, p in by_topic(partitions).items()]
