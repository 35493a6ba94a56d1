"""A log against the simplest model of one, with kills and power cuts at any moment.

The model is a list of batches. What recovers is always a prefix of it; after a kill all of it,
after a power cut at least what was flushed.
"""

import asyncio
import random
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.protocol.records.record_batch import headers
from minikafka.storage.log import Cold, Log
from tests.storage.faults import FaultyFs
from tests.storage.support import Made, TestRuntime, batch, joined, topic

pytestmark = pytest.mark.slow


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.runner = asyncio.Runner()
        self.fs = FaultyFs()
        self.runtime = TestRuntime(self.fs)
        self.made: list[Made] = []
        self.flushed: list[Made] = []
        """What a power cut leaves for sure: as of the last flush, less what was cut since."""
        self.start = 0
        self.recovery_point = 0
        self.epoch = 0
        self.sequence = 0

    def teardown(self) -> None:
        self.log.abandon()
        self.runtime.close()
        self.runner.close()
        shutil.rmtree(self.root)

    @initialize(
        segment_bytes=st.sampled_from([300, 900, 5000]), interval=st.sampled_from([0, 150, 4096])
    )
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.config = topic(
            segment_bytes=segment_bytes, index_interval_bytes=interval, retention_bytes=2000
        )
        self._open(clean=True)

    def _open(self, *, clean: bool) -> None:
        self.log = self.runner.run(
            Log.open(
                self.runtime,
                f"{self.root}/t-0",
                self.config,
                clean=clean,
                recovery_point=self.recovery_point,
                log_start_offset=self.start,
            )
        )

    @property
    def end(self) -> int:
        return self.made[-1][0].next_offset if self.made else self.log.log_end_offset

    @rule(counts=st.lists(st.integers(1, 4), min_size=1, max_size=8), size=st.integers(0, 90))
    def append(self, counts: list[int], size: int) -> None:
        batches, offset = [], self.end
        for count in counts:
            producer = (7, 0, self.sequence)
            one = batch(
                offset,
                count=count,
                size=size,
                epoch=self.epoch,
                producer=producer,
                timestamp=offset,
            )
            self.sequence += count
            offset += count
            batches.append(one)
        self.log.append(batches)
        self.made += batches

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.end)

    @rule()
    def flush(self) -> None:
        self.runner.run(self.log.flush())
        self.flushed = list(self.made)

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point, self.start = self.log.flushed_offset, self.log.log_start_offset

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @precondition(lambda self: self.made)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        low = max(self.log.log_start_offset, self.made[0][0].base_offset)
        offset = data.draw(st.integers(low, self.end))
        self.log.truncate_to(offset)
        self.made = [one for one in self.made if one[0].next_offset <= offset]
        self.flushed = [one for one in self.flushed if one[0].next_offset <= offset]
        self.sequence = self.made[-1][0].last_sequence + 1 if self.made else 0
        # As the directory does, at once: a recovery point ahead of the log is a promise broken.
        self.recovery_point = min(self.recovery_point, self.log.flushed_offset)
        self.epoch += 1

    @rule()
    def delete_old(self) -> None:
        self.log.delete_old_segments(self.runtime.wall_ms(), self.end)
        first = self.log.segments[0].base_offset if self.log.segments else 0
        self.made = [one for one in self.made if one[0].base_offset >= first]
        self.flushed = [one for one in self.flushed if one[0].base_offset >= first]
        self.start = self.log.log_start_offset

    @rule()
    def stop_and_start(self) -> None:
        self.runner.run(self.log.close())
        self.flushed = list(self.made)
        self.recovery_point, self.start = self.log.flushed_offset, self.log.log_start_offset
        self._open(clean=True)
        self._check_all()

    @rule()
    def kill_and_start(self) -> None:
        self.log.abandon()
        self._open(clean=False)
        assert self.log.log_end_offset == self.end
        self._check_all()

    @rule(seed=st.integers(0, 10**6))
    def cut_power_and_start(self, seed: int) -> None:
        self.log.abandon()
        self.fs.cut_power(self.root, random.Random(seed))
        self._open(clean=False)
        count = sum(1 for header, _ in self.made if header.next_offset <= self.log.log_end_offset)
        assert count >= len(self.flushed)
        self.made = self.made[:count]
        self.flushed = list(self.made) if count == len(self.flushed) else self.flushed
        self.sequence = self.made[-1][0].last_sequence + 1 if self.made else 0
        self.epoch += 1
        self._check_all()

    def _check_all(self) -> None:
        found, offset = b"", self.log.log_start_offset
        while offset < self.log.log_end_offset:
            read = self.log.reader.read_cold(offset, max_bytes=400, up_to=self.log.log_end_offset)
            data = bytes(self.runner.run(read).data)
            found += data
            offset = [header for _, header in headers(data)][-1].next_offset
        first = self.log.log_start_offset
        assert found == joined(one for one in self.made if one[0].next_offset > first)

    @rule(data=st.data(), max_bytes=st.integers(0, 1500), one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, one: bool) -> None:
        start = self.log.log_start_offset
        offset = data.draw(st.integers(start, self.log.log_end_offset))
        up_to = data.draw(st.integers(start, self.log.log_end_offset + 2))
        how: Any = {"max_bytes": max_bytes, "up_to": up_to, "at_least_one": one}
        try:
            found = self.log.reader.read(offset, **how).data
        except Cold:
            found = self.runner.run(self.log.reader.read_cold(offset, **how)).data
        wanted = [
            made
            for made in self.made
            if made[0].next_offset > offset and made[0].next_offset <= up_to
        ]
        if offset >= up_to:
            wanted = []
        assert joined(wanted).startswith(found)
        if wanted and one:
            assert len(found) >= wanted[0][0].size
        assert len(found) <= max(max_bytes, wanted[0][0].size if wanted and one else 0)

    @invariant()
    def the_bounds_hold(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset <= self.log.log_end_offset == self.end
        assert self.log.flushed_offset <= self.log.log_end_offset
        known = self.log.producers.get(7)
        if self.made:
            assert known is not None
            assert known.batches[-1].last_sequence == self.sequence - 1
        epochs = list(self.log.leader_epochs)
        for header, _ in self.made[-3:]:
            if header.base_offset >= self.log.log_start_offset:
                assert self.log.leader_epochs.epoch_for(header.base_offset) == header.leader_epoch
        assert epochs == sorted(epochs)


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
