"""Sends the markers of decided transactions to partition leaders, until every one is written.

`MarkerSender` drives the pure `Markers`, with one task for each leader that has a request in
flight, and decides when to retry. When all markers of a transaction are written, the coordinator
completes the transaction.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ...client.net.backoff import Backoff
from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ...runtime.waiting import end_tasks
from ..deadlines import Deadline, Deadlines
from ..peers import PeerFailed, Peers
from .transaction.decisions import is_commit
from .transaction.markers import GONE, Batch, Ending, Markers
from .transaction.records import by_topic

RETRY: Final = Backoff(first_ms=20, most_ms=1000, steady_count=5)
LANE: Final = "markers"
QUIET: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""Errors that end without intervention, when leaders change or brokers return; logged at DEBUG."""

log = logging.getLogger(__name__)


class MarkerSender:
    """The markers on their way to partition leaders, and the tasks that send them."""

    def __init__(
        self,
        runtime: Runtime,
        deadlines: Deadlines,
        peers: Peers,
        image: Callable[[], MetadataImage],
        finished: Callable[[Ending], None],
    ) -> None:
        """`finished` is called with each transaction whose markers are all written."""
        self.markers = Markers()
        self._runtime = runtime
        self._deadlines = deadlines
        self._peers = peers
        self._image = image
        self._finished = finished
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._is_pump_due = False
        self._retry: Deadline | None = None
        self._failures = 0
        self._is_closed = False

    def add(self, ending: Ending) -> None:
        """Send the markers of a transaction whose outcome is committed to the log."""
        self.markers.add(ending)
        self._kick()

    def drop_shard(self, shard: int) -> None:
        """Drop the transactions of a shard that another broker coordinates now."""
        self.markers.drop_shard(shard)

    def retry_now(self) -> None:
        """Stop waiting for a retry, and send the waiting markers: leaders have changed."""
        if self._retry is not None:
            self._retry.cancel()
            self._on_rested()

    async def close(self) -> None:
        """Stop sending. The next coordinator sends all unanswered markers again."""
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()
        tasks, self._tasks = self._tasks, {}
        await end_tasks(tasks.values())

    def _kick(self) -> None:
        # Not at once, because a commit may be reported in the middle of an append to the same log
        # that the completion of a transaction is written to.
        if not self._is_pump_due and not self._is_closed:
            self._is_pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        if self._is_closed:
            return
        self.markers.route(self._leader_of)
        for leader in self.markers.ready():
            batch = self.markers.take(leader)
            name = f"markers to broker {leader}"
            self._tasks[leader] = self._runtime.spawn(self._send(leader, batch), name)
        for ending in self.markers.finished():
            self._finished(ending)
        if not self.markers.is_resting:
            self._failures = 0
        elif self._retry is None:
            self._failures += 1
            wait_ms = RETRY.after(self._failures, self._runtime.rng)
            self._retry = self._deadlines.after(wait_ms, self._on_rested)

    def _on_rested(self) -> None:
        self._retry = None
        self.markers.wake()
        self._kick()

    def _leader_of(self, partition: TopicPartition) -> int:
        topic = self._image().topic(partition.topic)
        state = None if topic is None else topic.partitions.get(partition.partition)
        return GONE if state is None else state.leader

    async def _send(self, leader: int, batch: Batch) -> None:
        try:
            answer = await self._peers.ask(leader, _request(batch), lane=LANE)
        except PeerFailed as error:
            log.info("markers of %d transactions: %s", len(batch), error)
            self.markers.on_failed(leader, batch)
        else:
            error_of = partial(_error_of, _errors(answer))
            for ending, partition, refusal in self.markers.on_answered(leader, batch, error_of):
                level = logging.DEBUG if refusal in QUIET else logging.WARNING
                log.log(level, "%r: marker for %s-%d: %s", ending, *partition, refusal.name)
        del self._tasks[leader]
        self._kick()


def _request(batch: Batch) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=ending.transaction.producer_id,
                producer_epoch=ending.transaction.epoch,
                transaction_result=is_commit(ending.transaction.state),
                topics=[
                    WritableTxnMarkerTopic(name=topic, partition_indexes=indexes)
                    for topic, indexes in by_topic(partitions).items()
                ],
                coordinator_epoch=ending.coordinator_epoch,
                transaction_version=ending.transaction.client_version,
            )
            for ending, partitions in batch
        ]
    )


Errors = dict[tuple[int, TopicPartition], int]


def _errors(response: WriteTxnMarkersResponse) -> Errors:
    """Return the errors by producer id and partition; a request has one marker for each id."""
    return {
        (marker.producer_id, TopicPartition(topic.name, each.partition_index)): each.error_code
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }


def _error_of(errors: Errors, ending: Ending, partition: TopicPartition) -> ErrorCode:
    key = (ending.transaction.producer_id, partition)
    return ErrorCode(errors.get(key, ErrorCode.UNKNOWN_SERVER_ERROR))
