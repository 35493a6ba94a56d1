"""Transactions in a log against the slow way to find them, through rolls, cuts, kills and restarts.

Whatever happens, what is open, aborted and next is what a walk over all batches finds.
"""

import asyncio
import shutil
import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.storage.aborted import aborted_between
from minikafka.storage.log import Log
from tests.storage.faults import FaultyFs
from tests.storage.support import Made, TestRuntime, batch, topic
from tests.storage.transactions import (
    Writer,
    marker,
    naive_aborted,
    naive_open,
    stable_offset,
    transactional,
)

pytestmark = pytest.mark.slow
PRODUCERS = st.integers(1, 3)


class TransactionsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.runner = asyncio.Runner()
        self.runtime = TestRuntime(FaultyFs())
        self.made: list[Made] = []
        self.high_watermark = 0
        self.recovery_point = 0

    def teardown(self) -> None:
        self.log.abandon()
        self.runtime.close()
        self.runner.close()
        shutil.rmtree(self.root)

    @initialize(segment_bytes=st.sampled_from([300, 900, 5000]))
    def begin(self, segment_bytes: int) -> None:
        self.config = topic(segment_bytes=segment_bytes, index_interval_bytes=150)
        self._open(clean=True)

    def _open(self, *, clean: bool) -> None:
        self.log = self.runner.run(
            Log.open(
                self.runtime,
                f"{self.root}/t-0",
                self.config,
                clean=clean,
                recovery_point=self.recovery_point,
            )
        )

    @property
    def end(self) -> int:
        return self.made[-1][0].next_offset if self.made else 0

    def _epoch(self, producer_id: int) -> int:
        epochs = [h.producer_epoch for h, _ in self.made if h.producer_id == producer_id]
        return epochs[-1] if epochs else 0

    def _sequence(self, producer_id: int, epoch: int) -> int:
        mine = [h for h, _ in self.made if h.producer_id == producer_id and not h.is_control]
        return mine[-1].last_sequence + 1 if mine and mine[-1].producer_epoch == epoch else 0

    def _append(self, *made: Made) -> None:
        self.log.append(list(made))
        self.made += made

    @rule(producer_id=PRODUCERS, count=st.integers(1, 3))
    def write(self, producer_id: int, count: int) -> None:
        epoch = self._epoch(producer_id)
        sequence = self._sequence(producer_id, epoch)
        self._append(transactional(self.end, Writer(producer_id, epoch), sequence, count=count))

    @rule(count=st.integers(1, 4))
    def write_plainly(self, count: int) -> None:
        self._append(batch(self.end, count=count))

    @rule(producer_id=PRODUCERS, commits=st.booleans(), raises_epoch=st.booleans())
    def decide(self, producer_id: int, commits: bool, raises_epoch: bool) -> None:
        epoch = self._epoch(producer_id) + raises_epoch
        self._append(marker(self.end, Writer(producer_id, epoch), commits=commits))

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def advance(self, data: st.DataObject) -> None:
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))

    @rule()
    def flush(self) -> None:
        self.runner.run(self.log.flush())
        self.recovery_point = self.log.recovery_point

    @precondition(lambda self: self.made)
    @rule(data=st.data(), is_unclean=st.booleans())
    def truncate(self, data: st.DataObject, is_unclean: bool) -> None:
        low = 0 if is_unclean else min(self.high_watermark, self.end)
        offset = data.draw(st.integers(low, self.end))
        self.log.truncate_to(offset)
        self.made = [one for one in self.made if one[0].next_offset <= offset]
        self.high_watermark = min(self.high_watermark, self.end)
        self.recovery_point = min(self.recovery_point, self.log.recovery_point)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.runner.run(self.log.close())
        else:
            self.log.abandon()
        self._open(clean=clean)

    @invariant()
    def what_is_open_is_known(self) -> None:
        begun = naive_open(self.made)
        known = {
            producer_id: producer.transaction_start
            for producer_id, producer in self.log.producers
            if producer.transaction_start >= 0
        }
        assert known == begun

    @invariant()
    def what_is_stable_is_decided_and_committed(self) -> None:
        stable = stable_offset(self.log, self.high_watermark)
        open_now = naive_open(self.made)
        undecided = [
            header.base_offset
            for header, _ in self.made
            if header.is_transactional and header.producer_id in open_now
        ]
        first = min(
            [offset for offset in open_now.values() if offset in undecided], default=1 << 60
        )
        assert stable <= min(self.high_watermark, first)

    @invariant()
    def what_was_aborted_is_told(self) -> None:
        expected = sorted(naive_aborted(self.made), key=lambda one: one[1])
        found = aborted_between(self.log.segments, 0, self.end)
        assert [(one.producer_id, one.first_offset, one.last_offset) for one in found] == expected
        for producer_id, first, last in expected:
            for start, end in ((first, first + 1), (last, last + 1), (first + 1, last)):
                if start < end:
                    told = aborted_between(self.log.segments, start, end)
                    assert (producer_id, first) in [
                        (one.producer_id, one.first_offset) for one in told
                    ]

    @invariant()
    def producers_are_at_their_last_batch(self) -> None:
        for producer_id, producer in self.log.producers:
            epoch = self._epoch(producer_id)
            assert producer.epoch == epoch
            last = producer.batches[-1].last_sequence + 1 if producer.batches else 0
            assert last == self._sequence(producer_id, epoch)


TestTransactions = TransactionsMachine.TestCase
TestTransactions.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
