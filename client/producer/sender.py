"""Sends the accumulator's parcels to brokers and passes the answers on.

Each producer has one sender. A record, an answer, new metadata or a timer wakes it.
`PartitionQueue` decides about order and retries. Each time a request has waited
`unanswered_request_ms` for its answer, the sender refreshes the metadata from another broker. Only
if the metadata names another leader, the batches are sent to that leader.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ...protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from ...protocol.types import NO_LEADER, TopicPartition
from ...runtime.runtime import Runtime
from ..cluster import Broker, Changes, ClusterView
from ..config import ProducerConfig
from ..errors import ClientError, UnknownTopic
from ..metadata import NOT_YET, Metadata, suspect
from ..net.backoff import Backoff
from ..net.connection import KafkaConnection
from ..net.pool import PRODUCE
from .accumulator import Accumulator, Loss, Parcel, losses_of
from .batch import Batch, ProducerIdentity
from .metrics import ProducerMetrics
from .partition_queue import Answer, PartitionQueue, Verdict
from .produce_request import produce_request, produce_version
from .producer_ids import ProducerIds

log = logging.getLogger(__name__)

WARM_EVERY_MS: Final = 1_000
WARM_PARTITIONS: Final = 64
"""The number of busy partitions, at most, to whose replicas the client connects in advance."""
TRAILING_RETRY_MS: Final = 10
TRAILING_RETRIES: Final = 10
"""The number of quick retries, at most, at a broker that lags behind the newest leader epoch."""
ANSWER_GRACE_MS: Final = 2_000
"""The most ms that the client waits for an answer beyond the time limit that the broker has."""


@dataclass(slots=True, eq=False)
class _Flight:
    """One produce request whose answer has not come."""

    node_id: int
    version: int
    sent_ms: int
    asked_ms: int
    """The monotonic ms of the last metadata refresh for this request; at first, of its sending."""
    batches: list[tuple[PartitionQueue, Batch, int]]
    """The batches, each with its queue and the number of this attempt."""


class Sender:
    """Sends the accumulator's batches until it is closed."""

    def __init__(
        self,
        runtime: Runtime,
        config: ProducerConfig,
        metadata: Metadata,
        accumulator: Accumulator,
        metrics: ProducerMetrics,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._accumulator = accumulator
        self._metrics = metrics
        self._is_transactional = config.transactional_id is not None
        self._loop = asyncio.get_running_loop()
        self._flights: dict[_Flight, None] = {}
        self._connecting: dict[int, int] = {}
        """Brokers being connected to, each with the ms of the last refresh of metadata for it."""
        self._warm_at_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False
        self._is_closed = False
        backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._backoff = backoff
        self._producer_ids = ProducerIds(
            runtime, metadata, backoff, self._on_identity, self._on_no_identity
        )
        self.fatal: ClientError | None = None
        """The reason why nothing can be sent any more; None while records can be sent."""
        self.on_fatal: Callable[[], None]
        """Called when `fatal` is set. Set it before `start`."""
        metadata.listen(self._on_metadata)

    def start(self) -> None:
        """Ask for a producer id now, so that the first records need not wait for it."""
        if self._config.is_idempotent and not self._is_transactional:
            self._producer_ids.allocate()

    def wake(self) -> None:
        """Schedule a search for batches to send in the event loop's next iteration."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._pump)

    async def close(self) -> None:
        """Stop sending; the caller fails the records that are not settled."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._producer_ids.close()

    # -- sending

    def _pump(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        now_ms = self._runtime.monotonic_ms()
        self._note_failures(self._accumulator.on_deadlines(now_ms))
        self._accumulator.give_up_waiting()
        wants_identity = self._config.is_idempotent and self._accumulator.wants_identity()
        # In transactions the transaction coordinator gives the producer id and epoch.
        if wants_identity and not self._is_transactional:
            self._producer_ids.allocate()
        drained = self._accumulator.drain(now_ms, self._metadata.view, self._room)
        for parcel in drained.parcels:
            self._send(parcel, now_ms)
        if drained.unled:
            for partition in drained.unled:
                self._metadata.watch(partition.topic)
            self._metadata.refresh_soon()
        if drained.parcels and now_ms >= self._warm_at_ms:
            self._warm_at_ms = now_ms + WARM_EVERY_MS
            _connect_to_replicas(self._metadata, self._accumulator)
        self._arm(self._ask_about_slow_brokers(now_ms), now_ms)

    def _arm(self, slow_check_ms: int | None, now_ms: int) -> None:
        times = [self._accumulator.next_wake_ms(now_ms), slow_check_ms]
        known = [time for time in times if time is not None]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if known:
            wait_ms = max(min(known) - now_ms, 0)
            self._timer = self._loop.call_later(wait_ms / 1000, self._pump)

    def _room(self, node_id: int) -> int:
        """Return how many more requests may be sent to a broker now; connect if necessary."""
        broker = self._metadata.view.brokers.get(node_id)
        if broker is None:
            return 0
        connection = self._metadata.pool.ready(broker.address, PRODUCE)
        if connection is not None:
            most = self._config.max_in_flight_requests_per_connection
            return most - connection.in_flight_count
        if node_id not in self._connecting:
            self._connecting[node_id] = self._runtime.monotonic_ms()
            task = self._metadata.pool.start(broker.address, PRODUCE)
            task.add_done_callback(lambda task: self._on_connected(node_id, task))
        return 0

    def _on_connected(self, node_id: int, task: "asyncio.Task[KafkaConnection]") -> None:
        self._connecting.pop(node_id, None)
        if self._is_closed or task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.debug("broker %d cannot be reached: %s", node_id, error)
            self._note_unreachable(node_id, str(error))
            self._metadata.refresh_soon(avoid=node_id)
        self.wake()

    def _note_unreachable(self, node_id: int, why: str) -> None:
        view = self._metadata.view
        for partition, queue in self._accumulator.busy.items():
            leader = view.leader_of(*partition)
            if leader is not None and leader.leader_id == node_id and queue.waiting:
                queue.waiting[0].last_error = why

    def _send(self, parcel: Parcel, now_ms: int) -> None:
        broker = self._metadata.view.brokers[parcel.node_id]
        connection = self._metadata.pool.ready(broker.address, PRODUCE)
        batches = [(queue, batch, batch.attempt) for queue, batch in parcel.batches]
        flight = _Flight(parcel.node_id, 0, now_ms, now_ms, batches)
        if connection is None:
            self._on_lost(flight, f"{broker.address}: the connection was lost")
            return
        try:
            view = self._metadata.view
            adds = not self._is_transactional or self._accumulator.is_implicit
            version = produce_version(connection, view, parcel, adds_partitions=adds)
            request = produce_request(self._config, view, parcel, version)
            if self._config.acks_number == 0:
                connection.send_and_forget(request, version=version)
                self._metrics.on_sent(parcel, now_ms)
                self._on_forgotten(flight)
                return
            allowed_ms = self._config.request_timeout_ms
            timeout_ms = allowed_ms + min(allowed_ms, ANSWER_GRACE_MS)
            future = connection.send(request, version=version, timeout_ms=timeout_ms)
        except (ClientError, ProtocolError) as error:
            self._on_lost(flight, str(error))
            return
        flight.version = version
        self._flights[flight] = None
        self._metrics.on_sent(parcel, now_ms)
        future.add_done_callback(lambda future: self._on_answered(flight, future))

    # -- answers

    def _on_forgotten(self, flight: _Flight) -> None:
        for queue, batch, attempt in flight.batches:
            queue.on_answer(batch, attempt, Answer(ErrorCode.NONE), 0)
        self.wake()

    def _on_answered(self, flight: _Flight, future: "asyncio.Future[Any]") -> None:
        self._flights.pop(flight, None)
        if future.cancelled():
            return
        now_ms = self._runtime.monotonic_ms()
        self._metrics.on_answered(now_ms - flight.sent_ms, now_ms)
        error = future.exception()
        if self._is_closed:
            return
        if error is None:
            self._on_response(flight, future.result())
        elif isinstance(error, (ClientError, ProtocolError)):
            self._on_lost(flight, str(error))
        else:
            raise error

    def _on_lost(self, flight: _Flight, why: str) -> None:
        log.debug("request to broker %d lost: %s", flight.node_id, why)
        now_ms = self._runtime.monotonic_ms()
        for queue, batch, attempt in flight.batches:
            queue.on_attempt_lost(batch, attempt, why, self._retry_at_ms(queue, now_ms))
            self._metrics.retried.record(batch.record_count, now_ms)
        self._metadata.refresh_soon(avoid=flight.node_id)
        self.wake()

    def _on_response(self, flight: _Flight, response: ProduceResponse) -> None:
        view = self._metadata.view
        if response.node_endpoints:
            view.on_brokers(
                Broker(node.node_id, node.host, node.port, node.rack)
                for node in response.node_endpoints
            )
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or view.names.get(topic.topic_id, "")
            for partition in topic.partition_responses:
                answers[TopicPartition(name, partition.index)] = partition
        now_ms = self._runtime.monotonic_ms()
        self._metrics.throttled.record(response.throttle_time_ms, now_ms)
        for queue, batch, attempt in flight.batches:
            answer = answers.get(queue.partition)
            not_before_ms = self._retry_at_ms(queue, now_ms)
            if answer is not None and _trails(view, queue, answer):
                not_before_ms = now_ms + TRAILING_RETRY_MS
            if answer is None:
                why = f"broker {flight.node_id} said nothing of the partition"
                queue.on_attempt_lost(batch, attempt, why, not_before_ms)
                self._metadata.refresh_soon()
            else:
                self._on_partition(queue, batch, attempt, answer, not_before_ms)
        self.wake()

    def _on_partition(
        self,
        queue: PartitionQueue,
        batch: Batch,
        attempt: int,
        answer: PartitionProduceResponse,
        not_before_ms: int,
    ) -> None:
        code, hint = ErrorCode(answer.error_code), answer.current_leader
        said = Answer(
            code, answer.base_offset, answer.log_append_time_ms, answer.error_message or ""
        )
        verdict = queue.on_answer(batch, attempt, said, not_before_ms)
        if verdict is Verdict.FAILED:
            self._note_failures(losses_of([batch]))
        elif verdict is Verdict.RETRY:
            self._metrics.retried.record(batch.record_count, self._runtime.monotonic_ms())
        if verdict is not Verdict.DONE:
            log.debug("%s: %s: %s", queue.partition, code.name, verdict.name)
        if code.stale_metadata:
            if hint is not None and self._metadata.view.on_leader(
                queue.partition, hint.leader_id, hint.leader_epoch
            ):
                queue.on_leader_changed(hint.leader_id, self._runtime.monotonic_ms())
            else:
                self._metadata.refresh_soon()

    def _retry_at_ms(self, queue: PartitionQueue, now_ms: int) -> int:
        return now_ms + self._backoff.after(queue.failure_count + 1, self._runtime.rng)

    # -- metadata

    def _on_metadata(self, changes: Changes) -> None:
        if self._is_closed:
            return
        now_ms = self._runtime.monotonic_ms()
        view = self._metadata.view
        for name in changes.topics:
            if name in self._accumulator.topics or name in self._accumulator.parked:
                partitions = view.topics[name].partitions
                self._note_failures(self._accumulator.on_topic(name, partitions, now_ms))
        for name, code in changes.errors.items():
            if code not in NOT_YET:
                error = UnknownTopic(name, str(ApiError(code)))
                self._note_failures(self._accumulator.on_topic_refused(name, error))
            if name not in self._accumulator.topics and name not in self._accumulator.parked:
                self._metadata.forget(name)
        for partition in changes.leaders:
            topic = self._accumulator.topics.get(partition.topic)
            queue = topic.queues.get(partition.partition) if topic is not None else None
            leader = view.leader_of(*partition)
            if queue is not None and leader is not None and leader.leader_id != NO_LEADER:
                queue.on_leader_changed(leader.leader_id, now_ms)
        self.wake()

    def _ask_about_slow_brokers(self, now_ms: int) -> int | None:
        """Suspect each broker that leaves a request or a connect unanswered for long.

        Return the monotonic ms at which to check again, or None if nothing is unanswered.
        """
        patience_ms = self._config.unanswered_request_ms
        for flight in self._flights:
            if now_ms - flight.asked_ms >= patience_ms:
                flight.asked_ms = now_ms
                suspect(self._metadata, flight.node_id, PRODUCE)
        for node_id, asked_ms in self._connecting.items():
            if now_ms - asked_ms >= patience_ms:
                self._connecting[node_id] = now_ms
                suspect(self._metadata, node_id, PRODUCE)
        asked = [*(flight.asked_ms for flight in self._flights), *self._connecting.values()]
        return min(asked) + patience_ms if asked else None

    def _on_no_identity(self, why: str) -> None:
        self._accumulator.no_identity = why
        self.wake()

    def _on_identity(self, identity: ProducerIdentity | ClientError) -> None:
        if isinstance(identity, ClientError):
            self.fatal = identity
            self.on_fatal()
            self._note_failures(self._accumulator.fail_all(identity))
        else:
            self._accumulator.identity = identity
        self.wake()

    def _note_failures(self, losses: list[Loss]) -> None:
        for record_count, why in losses:
            self._metrics.failed.record(record_count, self._runtime.monotonic_ms())
            # Logged here, because the user may not look at the deliveries.
            log.warning("%d records were not delivered: %s", record_count, why)


def _trails(view: ClusterView, queue: PartitionQueue, answer: PartitionProduceResponse) -> bool:
    """True if the answer names an older leader epoch than the view: the broker lags behind.

    After TRAILING_RETRIES failures in a row the result is False, so that retries slow down.
    """
    known, hint = view.leader_of(*queue.partition), answer.current_leader
    return (
        known is not None
        and hint is not None
        and hint.leader_epoch < known.leader_epoch
        and queue.failure_count < TRAILING_RETRIES
    )


def _connect_to_replicas(metadata: Metadata, accumulator: Accumulator) -> None:
    """Connect to the replicas of busy partitions, since any of them may be the next leader.

    With the connection already open, sending resumes sooner after a failover.
    """
    view, pool = metadata.view, metadata.pool
    for partition in islice(accumulator.busy, WARM_PARTITIONS):
        known = view.leader_of(*partition)
        for node_id in known.replicas if known is not None else ():
            broker = view.brokers.get(node_id)
            if broker is not None and pool.ready(broker.address, PRODUCE) is None:
                pool.start(broker.address, PRODUCE)
