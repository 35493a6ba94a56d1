"""Staged batches: they have their offsets, and wait to be written together.

The caller has checked each batch before it is staged. `Partition.write_staged` writes all staged
batches together, and sets their errors if the write fails.
"""

from typing import Final

from ...protocol.errors import ErrorCode
from ...protocol.records.batch_header import CONTROL_BIT, BatchHeader
from ...storage.log import Log
from ...storage.producer_state import ProducedBatch
from . import intake
from .requests import Appended
from .traffic import TopicTraffic

NO_ANSWERS: Final[list[Appended]] = []
"""The empty list that all idle partitions share, which saves memory. It is never changed."""


class Staging:
    """The batches that one partition is about to append to its log, and their answers."""

    __slots__ = ("_log", "_traffic", "answers", "batches", "is_full", "throttle_ms")

    def __init__(self, log: Log, traffic: TopicTraffic | None = None) -> None:
        """`traffic` counts refused batches and the first batch of each write, unless it is None."""
        self._log = log
        self._traffic = traffic
        self.batches: list[tuple[BatchHeader, memoryview]] | None = None
        """The staged batches in offset order; None while nothing is staged."""
        self.is_full = False
        """True if this is a delay topic, and as many of its records wait as may."""
        self.throttle_ms = 0
        """The time in ms for which a producer is held back, because almost as many records wait."""
        self.answers: list[Appended] = NO_ANSWERS
        """The results of the staged batches, which get an error if the write fails."""

    def add(
        self,
        records: memoryview,
        header: BatchHeader,
        leader_epoch: int,
        rules: intake.IntakeRules,
        wall_ms: int,
    ) -> Appended:
        """Give a batch the next offsets, stamp it in place and keep it to be written."""
        log = self._log
        batches = self.batches
        if batches is None:
            batches = self.batches = []
            self.answers = []
            base_offset = log.log_end_offset
            traffic = self._traffic
            if traffic is not None:
                traffic.produce_requests += 1
                traffic.messages_in += header.record_count
                traffic.bytes_in += header.size
        else:
            last = batches[-1][0]
            base_offset = last.base_offset + last.last_offset_delta + 1
        append_time_ms = wall_ms if rules.is_log_append_time else -1
        header = intake.place(records, header, base_offset, leader_epoch, append_time_ms)
        if header.producer_id >= 0 and not header.attributes & CONTROL_BIT:
            # A staged batch counts already, because the next one of this read event continues its
            # sequence. The log itself observes only markers. If the write fails, the replica goes
            # offline, and this state is lost with it.
            log.producers.observe(header, wall_ms)
        batches.append((header, records))
        appended = Appended(
            ErrorCode.NONE,
            base_offset,
            base_offset + header.last_offset_delta,
            append_time_ms,
            log.log_start_offset,
        )
        self.answers.append(appended)
        return appended

    def answer_known(self, known: ProducedBatch | ErrorCode, rules: intake.IntakeRules) -> Appended:
        """Return the result of a batch that is not appended: a duplicate, or a refused one.

        `known` is the earlier batch that it repeats, or the error.
        """
        if isinstance(known, ErrorCode):
            return self.refuse(Appended(known))
        log = self._log
        append_time_ms = known.timestamp if rules.is_log_append_time else -1
        appended = Appended(
            ErrorCode.NONE,
            known.base_offset,
            known.last_offset,
            append_time_ms,
            log.log_start_offset,
        )
        if known.last_offset >= log.log_end_offset and self.batches is not None:
            # The original is still staged, so an error of the write is set on both results.
            self.answers.append(appended)
        return appended

    def refuse(self, answer: Appended, unfit_bytes: int = 0) -> Appended:
        """Count a batch that is refused, and return its `answer`.

        `unfit_bytes` is its size if a check of the batch itself has failed.
        """
        if self._traffic is not None:
            self._traffic.on_refused(unfit_bytes)
        return answer

    def fail(self, error: ErrorCode) -> None:
        """Drop the staged batches, which are never written, with `error` as the reason."""
        for appended in self.answers:
            appended.error = error
        self.batches, self.answers = None, NO_ANSWERS
