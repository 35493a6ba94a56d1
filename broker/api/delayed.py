"""ListDelayed, AlterDelayed, DescribeForwarding, RefireForwarded: delay topics led here."""

from collections.abc import Sequence
from itertools import islice

from ...protocol.api import ApiKey
from ...protocol.delays import AT_ONCE
from ...protocol.errors import ErrorCode
from ...protocol.messages import alter_delayed as ad
from ...protocol.messages import describe_forwarding as df
from ...protocol.messages import list_delayed as ld
from ...protocol.messages import refire_forwarded as rf
from ..audit.happenings import Change as Told
from ..forward.changing import Change
from ..forward.due_index import Entry
from ..forward.refiring import Refire, Refired
from ..forward.source import Source
from ..net.answer import Answer, Call
from ..partition.partition import Partition
from .acted import tell
from .parked import Parked

MOST_LOOKED_AT = 20_000
"""The most entries of the index that are looked at for one partition's list."""


def list_delayed(call: Call, request: ld.ListDelayedRequest) -> ld.ListDelayedResponse:
    """List what waits in each partition, from a position on."""
    if sum(len(topic.partitions) for topic in request.topics) > ld.MOST_PARTITIONS:
        return ld.ListDelayedResponse(error_code=ErrorCode.INVALID_REQUEST)
    most = min(max(request.max_records, 0), ld.MOST_LISTED)
    return ld.ListDelayedResponse(
        topics=[
            ld.ListedTopicResult(
                name=topic.name,
                partitions=[_list(call, topic.name, each, most) for each in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _list(call: Call, topic: str, asked: ld.ListedPartition, most: int) -> ld.ListedPartitionResult:
    result = ld.ListedPartitionResult(partition_index=asked.partition_index, records=[])
    source = _source(call, topic, asked.partition_index)
    if isinstance(source, ErrorCode):
        result.error_code = source
        return result
    if asked.offsets:
        result.states = [_state(source, offset) for offset in asked.offsets[: ld.MOST_LISTED]]
        return result
    behind = source.behind(Entry(asked.after_due_ms, asked.after_offset))
    for count, entry in enumerate(behind, 1):
        if 0 <= asked.before_due_ms <= entry.due_ms:
            break
        if not source.schedule.state.is_over(entry):
            result.records.append(ld.DelayedRecord(due_ms=entry.due_ms, offset=entry.offset))
        if len(result.records) >= most or count == MOST_LOOKED_AT:
            result.next_due_ms, result.next_offset = entry
            break
    return result


def _state(source: Source, offset: int) -> ld.StateOfRecord:
    state = source.schedule.state
    told = ld.StateOfRecord(offset=offset, state=ld.State.OVER)
    if not source.partition.log_start_offset <= offset < state.folded:
        told.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    elif offset not in state.settled:
        told.state, told.due_ms = ld.State.WAITS, state.moved.get(offset, -1)
    elif offset in state.cancelled:
        told.state = ld.State.CANCELLED
    else:
        plan = next((each for each in state.plans.values() if offset in each.offsets), None)
        if plan is not None:
            moved = {each.offset: each.due_ms for each in plan.moved}
            told.state, told.due_ms = ld.State.PLANNED, moved.get(offset, -1)
    return told


def alter_delayed(call: Call, request: ad.AlterDelayedRequest) -> Answer | ad.AlterDelayedResponse:
    """Cancel records, or change their times; answer once that is committed."""
    partitions = [each for topic in request.topics for each in topic.partitions]
    if sum(len(each.changes) for each in partitions) > ad.MOST_CHANGES:
        return ad.AlterDelayedResponse(error_code=ErrorCode.INVALID_REQUEST)
    changed = Changed(call, len(partitions), request.timeout_ms)
    for topic in request.topics:
        results = changed.of_topic(topic.name)
        for asked in topic.partitions:
            result = ad.ChangedPartitionResult(partition_index=asked.partition_index, records=[])
            results.append(result)
            source = _source(call, topic.name, asked.partition_index)
            changed.ask(source, asked.changes, result)
    return changed.answer


class Changed:
    """The changes of one request, which is answered when all are committed or the time is over."""

    def __init__(self, call: Call, partitions: int, timeout_ms: int) -> None:
        self.answer = Parked(call)
        self._response = ad.AlterDelayedResponse(topics=[])
        self._left = partitions
        self._changes: list[Told] = []
        self._deadline = call.edge.deadlines.after(max(timeout_ms, 0), self._finish)
        if not partitions:
            self._finish()

    def of_topic(self, name: str) -> list[ad.ChangedPartitionResult]:
        """Return the list for the results of a topic."""
        topic = ad.ChangedTopicResult(name=name, partitions=[])
        self._response.topics.append(topic)
        return topic.partitions

    def ask(
        self,
        source: Source | ErrorCode,
        asked: Sequence[ad.DelayedChange],
        result: ad.ChangedPartitionResult,
    ) -> None:
        """Ask for the changes of one partition, and put their outcome into its result."""
        if isinstance(source, ErrorCode):
            result.error_code = source
            self._one_is_there()
            return
        place = f"partition/{source.name.topic}-{source.name.partition}"

        def done(codes: Sequence[ErrorCode]) -> None:
            for each, code in zip(asked, codes, strict=True):
                if not code:
                    when = None if each.due_ms == ad.CANCEL else f"due {each.due_ms} ms"
                    self._changes.append(Told(place, f"record {each.offset}", "waits", when))
            result.error_code = ErrorCode.NONE
            result.records = [
                ad.ChangedRecordResult(offset=each.offset, error_code=code)
                for each, code in zip(asked, codes, strict=True)
            ]
            self._one_is_there()

        result.error_code = ErrorCode.REQUEST_TIMED_OUT
        source.change([self._change(each) for each in asked], done)

    def _change(self, asked: ad.DelayedChange) -> Change:
        if asked.due_ms == ad.CANCEL:
            return Change(asked.offset, None)
        # Not the time of this broker's clock: the next leader's may be far behind it.
        return Change(asked.offset, AT_ONCE if asked.due_ms < 0 else asked.due_ms)

    def _one_is_there(self) -> None:
        self._left -= 1
        if not self._left:
            self._finish()

    def _finish(self) -> None:
        self._deadline.cancel()
        tell(self.answer.call, ApiKey.ALTER_DELAYED, self._changes)
        self._changes = []
        self.answer.finish(self._response)


def describe_forwarding(
    call: Call, request: df.DescribeForwardingRequest
) -> df.DescribeForwardingResponse:
    """Tell the state of each partition."""
    if sum(len(topic.partition_indexes) for topic in request.topics) > df.MOST_PARTITIONS:
        return df.DescribeForwardingResponse(error_code=ErrorCode.INVALID_REQUEST)
    return df.DescribeForwardingResponse(
        topics=[
            df.ForwardingTopicResult(
                name=topic.name,
                partitions=[
                    _describe(call, topic.name, index) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _describe(call: Call, topic: str, index: int) -> df.ForwardingStatus:
    source = _source(call, topic, index)
    if isinstance(source, ErrorCode):
        return df.ForwardingStatus(partition_index=index, error_code=source)
    counts, next_due_ms = source.counts, source.next_due_ms
    leading = source.leading
    queues = [] if leading is None else [queue for queue in leading.targets if queue.plans]
    return df.ForwardingStatus(
        partition_index=index,
        pending=source.pending,
        planned=sum(len(plan.offsets) for plan in source.schedule.state.plans.values()),
        next_due_ms=-1 if next_due_ms is None else next_due_ms,
        forwarded=counts.forwarded,
        dead_letters=counts.dead_letters,
        dropped=counts.dropped,
        cancelled=counts.cancelled,
        targets=[
            df.TargetStatus(
                topic_id=queue.target.topic_id,
                partition_index=queue.target.partition,
                records=sum(len(plan.offsets) for plan in queue.plans),
                error_code=queue.code,
            )
            for queue in islice(queues, df.MOST_TARGETS)
        ],
    )


def refire_forwarded(
    call: Call, request: rf.RefireForwardedRequest
) -> Answer | rf.RefireForwardedResponse:
    """Forward records again that are forwarded already; answer once that is committed."""
    source = _source(call, request.topic, request.partition_index)
    if isinstance(source, ErrorCode):
        return rf.RefireForwardedResponse(error_code=source)
    answer = Parked(call)

    def done(outcome: Refired) -> None:
        deadline.cancel()
        if outcome.records:
            place = f"partition/{request.topic}-{request.partition_index}"
            again = [Told(place, "forwarded again", None, f"{outcome.records} records")]
            tell(call, ApiKey.REFIRE_FORWARDED, again)
        answer.finish(
            rf.RefireForwardedResponse(
                error_code=outcome.error,
                records=outcome.records,
                position=outcome.position,
                end=outcome.end,
            )
        )

    def late() -> None:
        source.withdraw(asked)
        done(Refired(ErrorCode.REQUEST_TIMED_OUT))

    first, last, since_ms = request.from_offset, request.to_offset, request.since_ms
    asked = Refire(first, last, since_ms, request.position, request.end, done)
    deadline = call.edge.deadlines.after(max(request.timeout_ms, 0), late)
    source.refire(asked)
    return answer


def _source(call: Call, topic: str, index: int) -> Source | ErrorCode:
    """Return the source of a partition that is led here, or why there is none."""
    edge = call.edge
    partition = edge.partitions.find(topic, index)
    if not isinstance(partition, Partition):
        return partition
    if partition.leader is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    source = edge.forwarder.sources.get(partition)
    return ErrorCode.INVALID_REQUEST if source is None else source
