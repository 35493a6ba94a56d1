"""The plans on their way to target partitions: which is sent next, and what each answer means.

Pure. A queue holds the plans of one producer id for one target partition, in order, and has one
request in flight at most.

    READY    -- sent -->                       SENT
    SENT     -- appended, or a duplicate -->   the plan ends, READY for the next
             -- a fault that passes -->        RESTING, then READY again; for ever
             -- a fault that stays -->         READY, and the next request is a fence
             -- the fence holds -->            CLOSED: the plans need another producer id
    any      -- the target is deleted, undeliverable_ms long -->  CLOSED

A plan is given up only behind a fence, so that no late copy of it can be appended. Plans of a newer
producer id wait until those of older ones have ended, because records go in the order in which they
are due; but a plan that is ALONE stops nobody.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.messages.forward_records import FENCED
from ...protocol.types import TopicIdPartition
from .steps import Plan

FIRST_REST_MS: Final = 100
LONGEST_REST_MS: Final = 30_000
REFUSED: Final = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_REQUEST,
)
"""The target refuses these records as they are, and may take them under other settings."""
TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
OUT_OF_SEQUENCE: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
"""The target has lost earlier batches of this producer id, or has fenced it."""


class Phase(Enum):
    """The state of a queue."""

    READY = 0
    SENT = 1
    RESTING = 2
    CLOSED = 3


class Ended(NamedTuple):
    """A plan is over: its batch is in the target."""

    plan: Plan
    base_offset: int


class GaveUp(NamedTuple):
    """The plans of a closed queue, which another step has to replace; the first one failed."""

    plans: tuple[Plan, ...]
    code: ErrorCode


Outcome = Ended | GaveUp | None


@dataclass(slots=True)
class TargetQueue:
    """The plans of one producer id for one target partition."""

    target: TopicIdPartition
    producer_id: int
    plans: deque[Plan]
    phase: Phase = Phase.READY
    is_fencing: bool = False
    code: ErrorCode = ErrorCode.NONE
    """The last error, while the first plan has one."""
    ready_at_ms: int = 0
    """Monotonic time at which a rest is over."""
    gone_since_ms: int = -1
    """Monotonic time since when the target is deleted; -1 if it is there."""
    rests: int = 0

    @property
    def is_alone(self) -> bool:
        """True if its one plan stops no other."""
        return self.plans[0].kind.is_alone

    def on_answer(self, code: ErrorCode, base_offset: int, now_ms: int) -> Outcome:
        """Note the answer to what was sent; return the outcome if the plan has one."""
        self.phase = Phase.READY
        self.gone_since_ms = -1
        if not code and base_offset == FENCED:
            return self._close(self.code)
        if not code:
            self.is_fencing, self.code, self.rests = False, ErrorCode.NONE, 0
            return Ended(self.plans.popleft(), base_offset)
        stays = code in OUT_OF_SEQUENCE or (code in REFUSED and not self.is_alone)
        if stays and not self.is_fencing:
            self.is_fencing, self.code = True, code
        else:
            self.rest(code, now_ms)
        return None

    def on_gone(self, now_ms: int, undeliverable_ms: int) -> Outcome:
        """Note that the target topic is deleted; give its plans up after so long."""
        if self.gone_since_ms < 0:
            self.gone_since_ms = now_ms
        if now_ms - self.gone_since_ms >= undeliverable_ms:
            return self._close(ErrorCode.UNKNOWN_TOPIC_ID)
        self.rest(ErrorCode.UNKNOWN_TOPIC_ID, now_ms)
        return None

    def rest(self, code: ErrorCode, now_ms: int) -> None:
        """Wait before the next attempt, twice as long each time up to LONGEST_REST_MS."""
        if not self.is_fencing:
            self.code = code
        wait_ms = LONGEST_REST_MS if self.is_alone else FIRST_REST_MS << min(self.rests, 10)
        self.rests += 1
        self.phase, self.ready_at_ms = Phase.RESTING, now_ms + min(wait_ms, LONGEST_REST_MS)

    def _close(self, code: ErrorCode) -> GaveUp:
        self.phase = Phase.CLOSED
        plans = tuple(self.plans)
        self.plans.clear()
        return GaveUp(plans, code)


class Targets:
    """The queues of one source partition."""

    def __init__(self) -> None:
        self._queues: dict[TopicIdPartition, dict[int, TargetQueue]] = {}

    def __iter__(self) -> Iterator[TargetQueue]:
        return (queue for queues in self._queues.values() for queue in queues.values())

    def add(self, plan: Plan) -> None:
        """Queue a plan whose step is committed, behind earlier ones of its target partition.

        If its step was written before a queue of its producer id was closed, it is sent anyway:
        the target refuses it, and it is given up as the others were.
        """
        queues = self._queues.setdefault(plan.target, {})
        queue = queues.get(plan.producer_id)
        if queue is None or queue.phase is Phase.CLOSED:
            queue = TargetQueue(plan.target, plan.producer_id, deque())
            queues[plan.producer_id] = queue
        queue.plans.append(plan)

    def open_plans(self, target: TopicIdPartition) -> int:
        """Return how many plans a target partition has not taken, those left out that are ALONE."""
        queues = self._queues.get(target)
        if queues is None:
            return 0
        return sum(len(each.plans) for each in queues.values() if each.plans and not each.is_alone)

    def ready(self, now_ms: int) -> list[TargetQueue]:
        """Return the queues that may send now."""
        found: list[TargetQueue] = []
        for target, queues in list(self._queues.items()):
            for producer_id, queue in list(queues.items()):
                if not queue.plans:
                    del queues[producer_id]
                    continue
                if queue.phase is Phase.RESTING and queue.ready_at_ms <= now_ms:
                    queue.phase = Phase.READY
                if queue.phase is Phase.READY:
                    found.append(queue)
                if not queue.is_alone:
                    break
            if not queues:
                del self._queues[target]
        return found

    def next_ready_ms(self) -> int | None:
        """Return the earliest time at which a rest is over; None if no queue rests."""
        rests = [queue.ready_at_ms for queue in self if queue.phase is Phase.RESTING]
        return min(rests, default=None)
