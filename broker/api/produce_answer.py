"""The answer to one Produce request, from staging its batches to building its response.

`ProduceAnswer` stages the batches, waits until each append is final as acks requires, and reports
the results. A failure of one partition is reported in the response, not raised.
"""

from typing import cast

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.leader_hint import LeaderIdAndEpoch
from ...protocol.messages.produce import (
    ACKS_ALL,
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ...protocol.records.record_checks import Verdict
from ...protocol.types import AUDIT_TOPIC, INTERNAL_TOPICS, NO_LEADER, Buffer
from ...security.quotas import PENDING
from ..net.answer import Call, CallAnswer
from ..partition.intake import NamesTargets, NeedsOpening
from ..partition.partition import Partition
from ..partition.requests import Appended
from ..partition.verification import Verification
from ..partition.waiters import Waiter
from .common import STALE_LEADER, node_endpoints
from .produce_opening import Opening, ToOpen
from .produce_targets import judge_targets
from .traced import note_append, sender_of

NOTHING: list[Buffer] = []
TOPIC_IDS_FROM = 13
CURRENT_LEADER_FROM = 10


class ProduceAnswer(CallAnswer):
    """The answer to one Produce request: stages its batches, waits, and builds the response."""

    __slots__ = (
        "_acks",
        "_is_held",
        "_opening",
        "_timeout_ms",
        "_to_open",
        "_waiters",
        "_waiting",
        "results",
    )

    def __init__(self, call: Call, request: ProduceRequest) -> None:
        self.call = call
        self.results: list[
            tuple[TopicProduceData, PartitionProduceData, Partition | None, Appended]
        ] = []
        self._acks = request.acks
        self._timeout_ms = request.timeout_ms
        self._is_held = False
        """True between `hold` and `release`, while no batch may be sent to a worker."""
        self._waiting = 0
        self._waiters: list[Waiter] = []
        self._to_open: list[ToOpen] = []
        self._opening: Opening | None = None

    @property
    def overlaps(self) -> bool:
        """False while a worker checks a batch, because the next request could overtake it."""
        return not self._to_open and self._opening is None

    def append(self, topic: TopicProduceData, data: PartitionProduceData) -> None:
        """Stage the batches of one partition, or record the error as its result."""
        partition = self.find(topic, data)
        if isinstance(partition, ErrorCode):
            self.results.append((topic, data, None, Appended(error=partition)))
        elif data.records is None:
            appended = Appended(error=ErrorCode.INVALID_RECORD, message="there are no records")
            self.results.append((topic, data, partition, appended))
        else:
            self.results.append((topic, data, partition, Appended()))
            records, wall_ms = cast(memoryview, data.records), self.call.connection.wall_ms
            self._append(len(self.results) - 1, records, wall_ms)

    def append_held(
        self,
        place: int,
        records: memoryview,
        guard: Verification | None,
        verdict: Verdict | None = None,
    ) -> None:
        """Stage a batch that had to wait, as if it had just arrived, and set its result.

        `place` is the index of the result that was reserved for the batch. `guard` and `verdict`
        are as in `Partition.append_as_leader`.
        """
        self._append(place, records, self.call.edge.runtime.wall_ms(), guard, verdict)

    def find(self, topic: TopicProduceData, data: PartitionProduceData) -> Partition | ErrorCode:
        """Return the partition, or an error; clients may not write to internal topics."""
        call, partitions = self.call, self.call.edge.partitions
        if call.rights is not None:
            name, write = _name(call, topic), Operation.WRITE
            if name is not None and not call.demand(ApiKey.PRODUCE, write, Resource.TOPIC, name):
                data.records = None  # So that `Patterns.learn` ignores this request.
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if self.call.version >= TOPIC_IDS_FROM:
            found = partitions.get(topic.topic_id, data.index)
        else:
            found = partitions.find(topic.name, data.index)
        if not isinstance(found, ErrorCode) and found.topic in INTERNAL_TOPICS:
            data.records = None  # So that `Patterns.learn` ignores this request.
            if found.topic == AUDIT_TOPIC:
                return ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        return found

    def begin(self) -> None:
        """Begin to wait for each append as acks requires; the caller has written the batches."""
        for _, data, _, _ in self.results:
            # The records are written. A waiting answer must not keep the receive buffer alive.
            data.records = None
        # One extra count until every wait has begun, so that no early result completes the answer.
        self._waiting += 1
        for _, _, partition, appended in self.results:
            self.wait_for(partition, appended)
        if self._to_open and not self._is_held:
            self._open()
        self._waiting -= 1

    def hold(self) -> None:
        """Send no answer, and no batch to a worker, until `release`: batches stay in order."""
        self._waiting += 1
        self._is_held = True

    def release(self) -> None:
        """End `hold`, because every held batch has been appended or refused."""
        self._is_held = False
        if self._to_open:
            self._open()
        self._on_done()

    def wait_for(self, partition: Partition | None, appended: Appended) -> None:
        """Begin to wait for the commit (acks=all) or the flush (acks=1 with group flush).

        The wait must begin in the turn of the append, because after a change of role other records
        may be at these offsets and be committed.
        """
        if partition is None or appended.error or appended.last_offset < 0:
            return
        if not self._acks or (self._acks != ACKS_ALL and not partition.role.metadata.group_flush):
            return
        self._waiting += 1
        deadline_ms = self.call.edge.runtime.monotonic_ms() + max(self._timeout_ms, 0)
        if self._acks == ACKS_ALL:
            waiter = partition.when_committed(appended, deadline_ms, self._on_done)
        else:
            when_flushed = partition.host.group_flush.when_flushed
            waiter = when_flushed(partition, appended, deadline_ms, self._on_done)
        if waiter is not None:
            self._waiters.append(waiter)

    def _append(
        self,
        place: int,
        records: memoryview,
        wall_ms: int,
        guard: Verification | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        topic, data, partition, _ = self.results[place]
        assert partition is not None
        try:
            appended = partition.append_as_leader(
                records, self._acks, wall_ms, guard=guard, verdict=verdict
            )
        except NeedsOpening as needed:
            self._to_open.append(ToOpen(place, partition, bytearray(records), needed.rules, guard))
            appended = Appended(ErrorCode.UNKNOWN_SERVER_ERROR)  # Until the worker's verdict.
        except NamesTargets as named:
            judged = judge_targets(self.call, partition.topic, named.verdict)
            self._append(place, records, wall_ms, guard, judged)
            return
        tracer = partition.host.tracer
        if tracer is not None and (appended.base_offset - 1 ^ appended.last_offset) >> tracer.shift:
            note_append(partition, records, appended, sender_of(self.call, self._acks))
        self.results[place] = (topic, data, partition, appended)
        if partition.staging.throttle_ms:
            self.call.throttle(PENDING, partition.staging.throttle_ms)

    def _open(self) -> None:
        """Have a worker check the batches that are too large to be decompressed on the loop."""
        self._waiting += 1
        self._opening = Opening(self.call, self._to_open, self._on_opened)
        self._to_open = []

    def _on_opened(self, verdicts: list[Verdict]) -> None:
        """Append the batches that a worker has checked, as if they had just arrived."""
        assert self._opening is not None
        opened, self._opening = self._opening.batches, None
        for each, verdict in zip(opened, verdicts, strict=True):
            self.append_held(each.place, memoryview(each.records), each.guard, verdict)
        self.call.edge.partitions.write_staged()
        for each in opened:
            self.wait_for(each.partition, self.results[each.place][-1])
        self._on_done()

    def _on_done(self) -> None:
        self._waiting -= 1
        if not self._waiting:
            self.call.connection.wake()

    def poll(self) -> list[Buffer] | None:
        """Return the response, or None while an append is not final.

        With acks=0 the response is empty, and an error closes the connection.
        """
        if self._waiting:
            return None
        if self._acks == 0:
            self._close_on_error()
            return NOTHING
        if self._acks != ACKS_ALL and not all(appended.error for _, _, _, appended in self.results):
            self.call.rest_on_lease()
        return self.call.frame_counted(self._response())

    def cancel(self) -> None:
        """Stop waiting, as the client is gone. Batches that wait for a worker are not appended."""
        if self._opening is not None:
            self._opening.cancel()
        for waiter in self._waiters:
            waiter.cancel()

    def _close_on_error(self) -> None:
        """Close the connection if a batch failed, because with acks=0 no answer can say so."""
        for topic, data, _, appended in self.results:
            if appended.error:
                where = f"{topic.name or topic.topic_id.hex()}-{data.index}"
                why = f"produce with acks=0 to {where} failed: {appended.error.name}"
                self.call.connection.close_after_answers(why)
                return

    def _response(self) -> ProduceResponse:
        responses: list[TopicProduceResponse] = []
        leaders: list[int] = []
        last: TopicProduceData | None = None
        times = self.call.connection.times
        for topic, data, _, appended in self.results:
            if topic is not last:
                last = topic
                responses.append(
                    TopicProduceResponse(
                        name=topic.name, topic_id=topic.topic_id, partition_responses=[]
                    )
                )
            answered = _answered(data.index, appended)
            if appended.error and times is not None:
                times.note_error("Produce", appended.error)
            if appended.error in STALE_LEADER and self.call.version >= CURRENT_LEADER_FROM:
                leader = self._leader(topic, data.index)
                if leader is not None:
                    answered.current_leader = leader
                    leaders.append(leader.leader_id)
            responses[-1].partition_responses.append(answered)
        response = ProduceResponse(responses=responses)
        if leaders:
            response.node_endpoints = node_endpoints(self.call, leaders)
        return response

    def _leader(self, topic: TopicProduceData, index: int) -> LeaderIdAndEpoch | None:
        edge = self.call.edge
        by_id = self.call.version >= TOPIC_IDS_FROM
        topic_id = topic.topic_id if by_id else edge.image.topic_ids.get(topic.name, b"")
        leader_id, epoch = edge.whereabouts.leader_of(topic_id, index)
        if leader_id in (NO_LEADER, edge.config.node_id):
            return None
        return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch)


def _name(call: Call, topic: TopicProduceData) -> str | None:
    """Return the name of the topic that a request names; None if the topic's id is unknown."""
    if call.version < TOPIC_IDS_FROM:
        return topic.name
    known = call.edge.image.topics.get(topic.topic_id)
    return None if known is None else known.name


def _answered(index: int, appended: Appended) -> PartitionProduceResponse:
    error = appended.error
    if not error:
        return PartitionProduceResponse(
            index=index,
            error_code=0,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )
    return PartitionProduceResponse(
        index=index,
        error_code=error,
        base_offset=-1,
        log_append_time_ms=-1,
        log_start_offset=appended.log_start_offset,
        error_message=appended.message,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=each, batch_index_error_message=why)
            for each, why in appended.record_errors
        ],
    )
