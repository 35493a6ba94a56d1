"""Fetch: reads for consumers and followers, within fetch sessions, with a wait for min_bytes.

A fetch reads all its partitions in one step. If it finds less than min_bytes, it waits and reads
again only the partitions that report a change. Pages that are not in memory are read off the event
loop. A follower's fetch is also its acknowledgement, which `Partition.fetch` records in the same
step in which it validates the fetch.
"""

import asyncio
import hmac
from collections.abc import Callable

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.control.records import REPLICA_PROOF
from ...protocol.errors import ErrorCode
from ...protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from ...protocol.types import Buffer
from ..deadlines import Deadline
from ..net.answer import Answer, Call, CallAnswer
from ..net.charging import Charging
from ..partition.partition import Partition
from ..partition.requests import CONSUMER, DEBUGGING_CONSUMER
from .common import TOPIC_NAME_MAX
from .fetch_reading import Asker, Reading
from .fetch_response import refused, respond
from .fetch_sessions import (
    FINAL_EPOCH,
    FetchContext,
    FetchPartition,
    FetchSessions,
    Key,
    SessionRequest,
)
from .fetch_watch import FollowerWatch, watch_of

TOPIC_IDS_FROM = 13
REPLICA_STATE_FROM = 15
OF_A_CONSUMER = ReplicaState()
FOLLOWER_READS_FROM = 11
"""The first version in which a consumer may read from a follower (KIP-392)."""
STORAGE_FAILURE_WAIT_MS = 300
"""Milliseconds by which a consumer's response with only disk errors is delayed, because some
clients retry without a pause."""


class Fetch:
    """The handler of Fetch, with the fetch sessions of one broker."""

    def __init__(self, sessions: FetchSessions) -> None:
        self._sessions = sessions

    def handle(self, call: Call, request: FetchRequest) -> FetchResponse | list[Buffer] | Answer:
        """Read every partition; return the response, or an answer that waits for more data."""
        edge = call.edge
        asker = _asker(call, request)
        if not isinstance(asker, Asker):
            return refused(asker)
        session = _session_request(call, request, is_follower=asker.is_follower)
        context = self._sessions.resolve(session, edge.runtime.monotonic_ms())
        if context.error:
            return refused(context.error)
        charging = call.connection.charging
        is_over = charging is not None and not asker.is_follower and charging.is_in_debt()
        if is_over:
            asker.max_bytes = 0
        watch: FollowerWatch | None = None
        if asker.is_follower:
            edge.partitions.heard.on_fetched(asker.replica_id, edge.runtime.monotonic_ms())
        if asker.is_follower and context.session is not None:
            watch = watch_of(call.connection, context.session, asker.replica_id)
            asked = watch.begin(session, edge.runtime.monotonic_ms())
            reading = Reading(edge, asker, asked, watch)
        else:
            reading = Reading(edge, asker, context.partitions)
        reading.read_all()
        if is_over:
            reading.drop_records()
            return call.frame_counted(respond(call, context, reading, asker.isolation))
        is_due = reading.is_enough and not (reading.has_failed and reading.is_storage_failure)
        if (is_due or request.max_wait_ms <= 0) and not reading.is_cold:
            if charging is not None:
                _charge(charging, reading)
            return call.frame_counted(respond(call, context, reading, asker.isolation))
        return ParkedFetch(call, context, reading, asker, watch).park(request.max_wait_ms)


class ParkedFetch(CallAnswer):
    """A fetch that waits for data, for the end of its max_wait_ms, or for the disk."""

    __slots__ = (
        "_asker",
        "_called",
        "_cold",
        "_context",
        "_deadline",
        "_is_expired",
        "_max_wait_ms",
        "_places",
        "_reading",
        "_watch",
        "is_follower",
    )

    def __init__(
        self,
        call: Call,
        context: FetchContext,
        reading: Reading,
        asker: Asker,
        watch: FollowerWatch | None,
    ) -> None:
        """`watch` wakes the fetch; if it is None, each partition of the fetch does."""
        super().__init__(call)
        self.is_follower = asker.is_follower
        self._context = context
        self._reading = reading
        self._asker = asker
        self._watch = watch
        self._called: dict[int, None] = {}
        self._places: dict[Partition, int] = {}
        self._deadline: Deadline | None = None
        self._is_expired = False
        self._max_wait_ms = 0
        self._cold: asyncio.Task[None] | None = None

    def park(self, max_wait_ms: int) -> Answer:
        """Begin to wait: for the disk if pages are not in memory, else for data or the time."""
        reading = self._reading
        self._max_wait_ms = max_wait_ms
        if reading.held_bytes:
            self.call.connection.outbox.hold(reading.held_bytes)
        if reading.is_cold:
            self._start_cold()
            return self
        if self._watch is not None:
            self._watch.is_parked = True
        else:
            for place, source in enumerate(reading.sources):
                if not isinstance(source, ErrorCode):
                    self._places[source] = place
                    source.data_waiters.add(self)
        self._arm(STORAGE_FAILURE_WAIT_MS if reading.is_storage_failure else max_wait_ms)
        return self

    def _arm(self, wait_ms: int) -> None:
        edge = self.call.edge
        deadline_ms = edge.runtime.monotonic_ms() + min(wait_ms, self._max_wait_ms)
        self._deadline = edge.deadlines.at(deadline_ms, self._on_expired)

    def on_data(self, partition: Partition) -> None:
        """Note a partition that may have data; the connection's next poll reads it."""
        place = self._places.get(partition)
        if place is not None:
            self._called[place] = None
            self.call.connection.wake()

    def note(self, partition: Partition) -> None:
        """Do nothing: a follower gets a new high watermark with its next response anyway."""

    def poll(self) -> list[Buffer] | None:
        """Return the response once there is enough data or max_wait_ms is over; until then None."""
        if self._cold is not None and not self._cold.done():
            return None
        reading = self._reading
        if self._called:
            places = list(self._called)
            self._called.clear()
            reading.read_again(places)
            self.call.connection.outbox.hold(reading.held_bytes)
        elif self._watch is not None and not reading.is_cold:
            called = self._watch.take_called()
            if called:
                reading.read_called(called)
        if not (reading.is_enough or self._is_expired):
            return None
        if not self._is_expired and self._max_wait_ms > 0 and reading.is_storage_failure:
            if self._deadline is None:
                self._arm(STORAGE_FAILURE_WAIT_MS)
            return None
        self._leave()
        if reading.is_cold:
            self._start_cold()
            return None
        edge = self.call.edge
        if not self.is_follower and not edge.lease.is_held(edge.runtime.monotonic_ms()):
            # Without the lease another broker may lead by now, so check every partition again.
            reading.read_again(list(range(len(reading.partitions))))
        connection = self.call.connection
        connection.outbox.hold(0)
        if connection.charging is not None:
            _charge(connection.charging, reading)
        response = respond(self.call, self._context, reading, self._asker.isolation)
        return self.call.frame_counted(response)

    def cancel(self) -> None:
        """Give up the fetch, because the client is gone."""
        self._leave()
        if self._cold is not None:
            self._cold.cancel()

    def hurry(self) -> None:
        """Answer a follower now, because it has sent another request."""
        self._is_expired = self._is_expired or self.is_follower

    def _on_expired(self) -> None:
        self._deadline = None
        self._is_expired = True
        self.call.connection.wake()

    def _leave(self) -> None:
        """Stop waiting for data and for the deadline."""
        self._called.clear()
        if self._watch is not None:
            self._watch.is_parked = False
        places, self._places = self._places, {}
        for partition in places:
            partition.data_waiters.remove(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _start_cold(self) -> None:
        self._cold = self.call.edge.runtime.spawn(self._read_cold(), "cold-fetch")

    async def _read_cold(self) -> None:
        await self._reading.read_cold()
        # The task is done only after this turn; the wake comes in the next.
        self.call.connection.wake()


def _charge(charging: Charging, reading: Reading) -> None:
    """Charge the records of a consumer to its quota; drop them if the client is over it."""
    if reading.is_for_follower:
        return
    if not charging.admits(sum(len(answer.records) for answer in reading.answers)):
        reading.drop_records()


def _asker(call: Call, request: FetchRequest) -> Asker | ErrorCode:
    """Return the consumer or follower that fetches, or an error if it may not fetch as a broker."""
    edge = call.edge
    state = request.replica_state or OF_A_CONSUMER
    if call.version < REPLICA_STATE_FROM and request.replica_id != CONSUMER:
        state = ReplicaState(replica_id=request.replica_id)
    replica_id, epoch = state.replica_id, state.replica_epoch
    is_denied = replica_id != CONSUMER and not call.demand(
        ApiKey.FETCH, Operation.CLUSTER_ACTION, Resource.CLUSTER
    )
    if is_denied:
        replica_id = CONSUMER  # Nothing of what a follower's fetch changes may happen.
    is_follower = replica_id > CONSUMER
    if is_follower:
        error = _refuse_replica(call, request.cluster_id, state)
        if error:
            text = "broker %d, epoch %d: a fetch from %s is refused: " + error.name
            peer, now_ms = call.connection.peer, edge.runtime.monotonic_ms()
            edge.refusals.seldom(now_ms, text, replica_id, epoch, peer)
            return error
        call.connection.is_replica = replica_id in edge.image.brokers
    max_bytes = _max_bytes(call, request.max_bytes, is_follower=is_follower)
    return Asker(
        replica_id=max(replica_id, DEBUGGING_CONSUMER),
        is_follower=is_follower,
        broker_epoch=epoch,
        isolation=request.isolation_level,
        min_bytes=min(request.min_bytes, max_bytes),
        max_bytes=max_bytes,
        leader_only=is_follower or call.version < FOLLOWER_READS_FROM,
        rack_of=None if is_follower or not request.rack_id else _racks(call),
        rack=request.rack_id,
        rights=None if is_follower or edge.authorizer is None else call.rights,
        client=(call.client_id or "", call.connection.host),
        is_denied=is_denied,
    )


def _racks(call: Call) -> Callable[[int], str | None] | None:
    """Return a function from broker id to rack; None if consumers read from leaders only."""
    edge, listener = call.edge, call.connection.listener.name
    if not edge.replica_selector.is_rack_aware:
        return None

    def rack_of(broker_id: int) -> str | None:
        found = edge.whereabouts.endpoint(broker_id, listener)
        return None if found is None else found[1]

    return rack_of


def _refuse_replica(call: Call, cluster_id: str | None, state: ReplicaState) -> ErrorCode:
    edge, listener = call.edge, call.connection.listener.name
    # A follower's fetch moves the high watermark. So it must come over the inter-broker listener,
    # and with the broker epoch, which fences an older start of the same broker.
    if state.replica_epoch < 0 or not edge.whereabouts.is_used_by(state.replica_id, listener):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    ours = edge.image.cluster_id
    # Our id is None while the metadata is loaded anew. No partition can be fetched then anyway.
    if cluster_id is not None and ours is not None and cluster_id != ours:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    known = edge.image.brokers.get(state.replica_id)
    if known is None:
        return ErrorCode.NONE if ours is None else ErrorCode.BROKER_ID_NOT_REGISTERED
    # A broker of an older version registers without the feature, and proves nothing.
    if REPLICA_PROOF not in known.features:
        return ErrorCode.NONE
    if hmac.compare_digest(state.incarnation_id, known.incarnation_id):
        return ErrorCode.NONE
    # A start that is newer than all that we have heard of is known in a moment, or never.
    is_newer = state.replica_epoch > known.broker_epoch
    unknown, denied = ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return unknown if is_newer else denied


def _max_bytes(call: Call, asked: int, *, is_follower: bool) -> int:
    """Return the byte limit of a fetch; a consumer's is lower while responses fill the memory."""
    if is_follower:
        return asked
    edge, charging = call.edge, call.connection.charging
    room = min(asked, edge.config.fetch_max_bytes, edge.load.response_room)
    return room if charging is None else charging.bound(room)


def _session_request(call: Call, request: FetchRequest, *, is_follower: bool) -> SessionRequest:
    by_id, epoch = call.version >= TOPIC_IDS_FROM, request.session_epoch
    if epoch != FINAL_EPOCH and not by_id and _has_long_name(request):
        epoch = FINAL_EPOCH
    partitions: list[FetchPartition] = []
    for topic in request.topics:
        name_or_id = topic.topic_id if by_id else topic.topic
        for asked in topic.partitions:
            partitions.append(
                FetchPartition(
                    key=(name_or_id, asked.partition),
                    max_bytes=asked.partition_max_bytes,
                    fetch_offset=asked.fetch_offset,
                    current_leader_epoch=asked.current_leader_epoch,
                    last_fetched_epoch=asked.last_fetched_epoch,
                    log_start_offset=asked.log_start_offset,
                    flushed_offset=asked.flushed_offset,
                    known_high_watermark=asked.high_watermark,
                )
            )
    return SessionRequest(
        session_id=request.session_id,
        epoch=epoch,
        is_privileged=is_follower,
        uses_topic_ids=by_id,
        partitions=tuple(partitions),
        forgotten=tuple(_forgotten(request, by_id=by_id)),
    )


def _has_long_name(request: FetchRequest) -> bool:
    """True if a topic has a name that no topic can have. A session would keep it, up to 32 KiB."""
    return any(len(topic.topic) > TOPIC_NAME_MAX for topic in request.topics)


def _forgotten(request: FetchRequest, *, by_id: bool) -> list[Key]:
    return [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
