"""A compacted log against the fold by key of all that was ever appended to it.

Whatever is appended (by plain, idempotent and transactional producers), cut, compacted, killed in
the middle of it or by the power: what a reader of committed records finds has the same newest
record for each key, at the same offset, as the history has; and producers go on where they were.
"""

import asyncio
import random
import shutil
import tempfile
from dataclasses import dataclass

import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minikafka.protocol.records.record_batch import Codec, headers, read_header, records, stamp
from minikafka.storage.compaction.compactor import Compactor, due
from minikafka.storage.compaction.key_offsets import BYTES_PER_KEY
from minikafka.storage.log import Log
from minikafka.storage.markers import TransactionMarker, encode_marker, read_marker
from minikafka.storage.record_reading import read_records_cold
from tests.storage.compaction_support import Entry, InlineRuntime, all_records, folded, keyed
from tests.storage.faults import Fault, FaultyFs, Killed
from tests.storage.support import contents, topic

pytestmark = pytest.mark.slow

KEYS = [b"a", b"b", b"c", b"a key that is longer than sixteen bytes"]
PLAIN, IDEMPOTENT, FIRST, SECOND = -1, 7, 8, 9
TRANSACTIONAL = (FIRST, SECOND)
RETENTION_MS = 1_000


@dataclass(frozen=True)
class Appended:
    """One batch of the history."""

    offset: int
    entries: tuple[Entry, ...]
    producer: int = PLAIN
    sequence: int = -1
    ends: str = ""
    """commit or abort: it is a marker."""

    @property
    def next_offset(self) -> int:
        return self.offset + (1 if self.ends else len(self.entries))


class CompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.mkdtemp()
        self.runner = asyncio.Runner()
        self.fs = FaultyFs()
        self.runtime = InlineRuntime(self.fs)
        self.history: list[Appended] = []
        self.stable_end = 0
        self.allowed = 0
        """Below it rounds may have touched anything: nothing is cut there."""
        self.compacted_to = 0
        self.epoch = 0
        self.log: Log

    def teardown(self) -> None:
        self.log.abandon()
        self.runtime.close()
        self.runner.close()
        shutil.rmtree(self.root)

    @initialize(segment_bytes=st.sampled_from([250, 900, 5000]))
    def begin(self, segment_bytes: int) -> None:
        self.config = topic(
            cleanup_policy="compact",
            segment_bytes=segment_bytes,
            index_interval_bytes=0,
            min_cleanable_dirty_ratio=0,
            delete_retention_ms=RETENTION_MS,
        )
        self._open()

    def _open(self) -> None:
        self.log = self.runner.run(
            Log.open(self.runtime, f"{self.root}/t-0", self.config, clean=False)
        )
        self.compacted_to = min(self.compacted_to, self.log.log_end_offset)

    # The history, and what follows from it.

    @property
    def end(self) -> int:
        return self.history[-1].next_offset if self.history else 0

    def sequence_of(self, producer: int) -> int:
        mine = [each for each in self.history if each.producer == producer and not each.ends]
        return mine[-1].sequence + len(mine[-1].entries) if mine else 0

    def open_since(self) -> dict[int, int]:
        """First offsets of the transactions that are open."""
        found: dict[int, int] = {}
        for each in self.history:
            if each.ends:
                found.pop(each.producer, None)
            elif each.producer in TRANSACTIONAL:
                found.setdefault(each.producer, each.offset)
        return found

    def committed(self) -> dict[bytes, tuple[int, bytes | None]]:
        """Newest committed record of each key below the last stable offset, deletions too."""
        stable = min(self.open_since().values(), default=self.end)
        newest: dict[int, tuple[bytes, bytes | None]] = {}
        open_: dict[int, list[Appended]] = {}
        for each in self.history:
            if each.ends:
                for batch in open_.pop(each.producer, []) if each.ends == "commit" else []:
                    newest |= {batch.offset + n: entry for n, entry in _keyed(batch)}
                open_.pop(each.producer, None)
            elif each.producer in TRANSACTIONAL:
                open_.setdefault(each.producer, []).append(each)
            else:
                newest |= {each.offset + n: entry for n, entry in _keyed(each)}
        found = {}
        for offset in sorted(offset for offset in newest if offset < stable):
            key, value = newest[offset]
            found[key] = (offset, value)
        return {key: one for key, one in found.items() if one[1] is not None}

    def read_committed(self) -> dict[bytes, tuple[int, bytes | None]]:
        """The same, as a consumer learns it from the log and its index of aborted transactions."""
        stable = min(self.open_since().values(), default=self.end)
        indexes = [
            each.aborted.index for each in self.log.segments if each.aborted.index is not None
        ]
        aborted = sorted(
            (index[at].first_offset, index[at].producer_id)
            for index in indexes
            for at in range(len(index))
        )
        hidden: dict[int, None] = {}
        found = []
        data = contents(self.log) if self.log.log_end_offset and self.log.size_bytes else b""
        for position, header in headers(data):
            while aborted and aborted[0][0] <= header.last_offset:
                hidden[aborted.pop(0)[1]] = None
            if header.is_control:
                marker = read_marker(header, data[position : position + header.size])
                if marker is not None and not marker.is_commit:
                    hidden.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in hidden):
                found += [one for one in records(data, position) if one.offset < stable]
        return folded(found)

    # What happens.

    @rule(
        entries=st.lists(
            st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=30))),
            min_size=1,
            max_size=4,
        ),
        producer=st.sampled_from([PLAIN, IDEMPOTENT, *TRANSACTIONAL]),
        codec=st.sampled_from([Codec.NONE, Codec.LZ4]),
    )
    def append(self, entries: list[Entry], producer: int, codec: Codec) -> None:
        sequence = self.sequence_of(producer) if producer != PLAIN else -1
        made = keyed(
            self.end,
            entries,
            timestamp=self.runtime.now_ms,
            epoch=self.epoch,
            codec=codec,
            producer=(producer, 0, sequence) if producer != PLAIN else None,
            is_transactional=producer in TRANSACTIONAL,
        )
        self.log.append([made])
        self.history.append(Appended(self.end, tuple(entries), producer, sequence))

    @rule(producer=st.sampled_from(TRANSACTIONAL), commits=st.booleans())
    def end_transaction(self, producer: int, commits: bool) -> None:
        assume(producer in self.open_since())
        data = encode_marker(TransactionMarker(producer, 0, 0, commits), self.runtime.now_ms)
        header = read_header(data)
        stamp(data, header, self.end, self.epoch)
        self.log.append([(header, data)])
        ends = "commit" if commits else "abort"
        self.history.append(Appended(self.end, (), producer, ends=ends))

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.runner.run(self.log.flush())
        self.stable_end = self.end

    @rule()
    def time_passes(self) -> None:
        self.runtime.now_ms += RETENTION_MS // 2 + 1

    @precondition(lambda self: any(each.offset >= self.allowed for each in self.history))
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        cuts = [each.offset for each in self.history if each.offset >= self.allowed]
        offset = data.draw(st.sampled_from(cuts))
        self.log.truncate_to(offset)
        self._lose_from(offset)

    def _lose_from(self, offset: int) -> None:
        self.history = [each for each in self.history if each.offset < offset]
        self.stable_end = min(self.stable_end, offset)
        self.epoch += 1

    @rule(keys=st.sampled_from([1, 2, 100]), killed_at=st.none() | st.integers(0, 40))
    def compact(self, keys: int, killed_at: int | None) -> None:
        self.log.roll()
        self.flush()
        stable = min(self.open_since().values(), default=self.end)
        part = due(self.log, self.compacted_to, stable, self.runtime.now_ms)
        if part is None:
            return
        self.allowed = max(self.allowed, part.segments[-1].next_offset)

        async def pay(count: int) -> None:
            pass

        if killed_at is not None:
            self.fs.fault = Fault(at=len(self.fs.calls) + killed_at)
        compactor = Compactor(self.runtime, keys * BYTES_PER_KEY, pay)
        try:
            end = self.runner.run(compactor.compact(self.log, part))
        except Killed:
            self.kill_and_start()
        else:
            self.fs.fault = None
            assert end is not None
            assert self.compacted_to < end <= self.allowed
            self.compacted_to = end

    @rule()
    def kill_and_start(self) -> None:
        self.fs.fault, self.fs._is_dead = None, False
        self.log.abandon()
        self._open()

    @rule(seed=st.integers(0, 10**6))
    def cut_power_and_start(self, seed: int) -> None:
        self.log.abandon()
        self.fs.cut_power(self.root, random.Random(seed))
        self._open()
        assert self.log.log_end_offset >= self.stable_end
        self._lose_from(self.log.log_end_offset)
        assert self.log.log_end_offset == self.end

    @invariant()
    def the_newest_of_each_key_is_there(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_end_offset == self.end
        assert self.read_committed() == self.committed()

    @invariant()
    def a_consumer_reads_every_record_and_no_answer_without_one_before_the_end(self) -> None:
        if not hasattr(self, "log"):
            return
        at, end, found = 0, self.log.log_end_offset, []
        while at < end:
            reading = read_records_cold(self.log.reader, at, max_bytes=100, up_to=end)
            data = bytes(self.runner.run(reading).data)
            if not data:
                break  # A cut within a gap: the log ends behind what it holds.
            batches = list(headers(data))
            found += [
                record.offset for position, _ in batches for record in records(data, position)
            ]
            at = batches[-1][1].next_offset
            assert batches[0][1].record_count or at == end or not self._holds_records_from(at)
        assert found == [record.offset for record in all_records(self.log)]

    def _holds_records_from(self, offset: int) -> bool:
        return any(record.offset >= offset for record in all_records(self.log))

    @invariant()
    def producers_go_on(self) -> None:
        for producer in (IDEMPOTENT, *TRANSACTIONAL):
            if (due_ := self.sequence_of(producer)) > 0:
                known = self.log.producers.get(producer)
                assert known is not None
                assert known.batches[-1].last_sequence == due_ - 1

    @invariant()
    def nothing_is_gone_that_no_round_may_touch(self) -> None:
        expected = [each.offset for each in self.history if each.offset >= self.allowed]
        if not expected:
            return
        data = contents(self.log)
        found = [h.base_offset for _, h in headers(data) if h.base_offset >= self.allowed]
        assert found == expected


def _keyed(batch: Appended) -> list[tuple[int, tuple[bytes, bytes | None]]]:
    return [(n, (key, value)) for n, (key, value) in enumerate(batch.entries) if key is not None]


TestCompactionMachine = CompactionMachine.TestCase
TestCompactionMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
