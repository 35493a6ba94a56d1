"""The client's half of a fetch session (KIP-227): names only what changed since the last fetch.

Pure. Epoch 0 asks for a new session and names every partition; each later request carries the next
epoch and names what changed. After an answer that was lost or refused, the next request closes the
session and asks for a new one.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import (
    INITIAL_SESSION_EPOCH,
    INVALID_SESSION_ID,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
)
from ...protocol.types import TopicPartition

MAX_EPOCH: Final = 0x7FFFFFFF


class Want(NamedTuple):
    """The fetch parameters of one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class Asked(NamedTuple):
    """The fields of a fetch request that name the session and the partitions."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """The client's fetch session with one broker; after an error it begins a new one."""

    def __init__(self) -> None:
        self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_SESSION_EPOCH
        self._told: dict[TopicPartition, Want] = {}

    def ask(self, wants: Mapping[TopicPartition, Want], *, may_increment: bool) -> Asked:
        """Build the session fields of the next request for exactly the partitions in `wants`.

        `may_increment` must be False below Fetch version 7, which has no sessions.
        """
        renamed = any(
            (told := self._told.get(partition)) is not None and told.topic_id != want.topic_id
            for partition, want in wants.items()
        )
        if renamed or not may_increment:
            self._epoch = INITIAL_SESSION_EPOCH
        if self._epoch == INITIAL_SESSION_EPOCH:
            self._told = dict(wants)
            return Asked(self._id, self._epoch, _topics(wants), [])
        news = {tp: want for tp, want in wants.items() if self._told.get(tp) != want}
        gone = {tp: told for tp, told in self._told.items() if tp not in wants}
        self._told.update(news)
        for partition in gone:
            del self._told[partition]
        return Asked(self._id, self._epoch, _topics(news), _forgotten(gone))

    def on_answer(self, code: ErrorCode, session_id: int) -> bool:
        """Apply an answer's error code and session id; return False if it holds no partitions."""
        if code is ErrorCode.NONE:
            if self._epoch == INITIAL_SESSION_EPOCH:
                self._id = session_id
            if self._id == INVALID_SESSION_ID:
                self._epoch = INITIAL_SESSION_EPOCH
            else:
                self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
            return True
        if code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = INVALID_SESSION_ID
        self._epoch = INITIAL_SESSION_EPOCH
        return False

    def on_lost(self) -> None:
        """Make the next request begin a new session, because a fetch got no answer."""
        self._epoch = INITIAL_SESSION_EPOCH


def _topics(wants: Mapping[TopicPartition, Want]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for (name, index), want in wants.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = FetchTopic(topic=name, topic_id=want.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.offset,
                partition_max_bytes=want.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(gone: Mapping[TopicPartition, Want]) -> list[ForgottenTopic]:
    topics: dict[str, ForgottenTopic] = {}
    for (name, index), told in gone.items():
        topic = topics.get(name)
        if topic is None:
            topic = topics[name] = ForgottenTopic(topic=name, topic_id=told.topic_id, partitions=[])
        topic.partitions.append(index)
    return list(topics.values())
