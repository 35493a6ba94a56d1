from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minikafka.client.errors import (
    DeliveryFailed,
    DeliveryTimeout,
    ProducerFenced,
    TransactionAborted,
)
from minikafka.client.producer.batch import Acknowledged, Batch, ProducerIdentity
from minikafka.client.producer.partition_queue import MAX_EPOCH, Answer, PartitionQueue, Verdict
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.records.record_batch import BatchBuilder, Codec, read_header
from minikafka.protocol.types import TopicPartition

from .fake_broker import FakePartition

pytestmark = pytest.mark.slow

TP = TopicPartition("t", 0)
OK = Answer(ErrorCode.NONE, base_offset=7)
OUT_OF_ORDER = Answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
NOT_ENOUGH = Answer(ErrorCode.NOT_ENOUGH_REPLICAS)
NOT_LEADER = Answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)


def queue_of(count: int, *, is_idempotent: bool = True) -> tuple[PartitionQueue, list[Batch]]:
    queue = PartitionQueue(TP, is_idempotent=is_idempotent, max_in_flight=5)
    if is_idempotent:
        queue.on_identity(ProducerIdentity(42, 0))
    batches = [add(queue, b"%d" % number) for number in range(count)]
    return queue, batches


def established(count: int) -> tuple[PartitionQueue, list[Batch]]:
    """A queue whose producer id the broker knows: one batch was acknowledged."""
    queue, (first,) = queue_of(1)
    send_all(queue)
    queue.on_answer(first, 1, OK, 0)
    return queue, [add(queue, b"%d" % number) for number in range(count)]


def add(queue: PartitionQueue, *values: bytes, deadline_ms: int = 1_000_000) -> Batch:
    batch = Batch(TP, BatchBuilder(Codec.NONE), 0, deadline_ms)
    for value in values:
        assert batch.builder is not None
        batch.builder.append(0, None, value)
        batch.record_count += 1
    queue.waiting.append(batch)
    return batch


def send_all(
    queue: PartitionQueue, now_ms: int = 0, node: int = 1, *, begins_at_0: bool = False
) -> list[Batch]:
    sent = []
    while (batch := queue.next_to_send(now_ms, begins_at_0=begins_at_0)) is not None:
        queue.on_sent(batch, node)
        batch.encode()
        sent.append(batch)
        queue.check_invariants()
    return sent


def test_at_most_five_are_in_flight_and_numbered_in_order() -> None:
    queue, batches = established(7)
    assert send_all(queue) == batches[:5]
    assert [batch.base_sequence for batch in batches[:5]] == [1, 2, 3, 4, 5]
    assert queue.on_answer(batches[0], 1, OK, 0) is Verdict.DONE
    assert send_all(queue) == [batches[5]]


def test_one_is_in_flight_until_the_broker_knows_the_producer() -> None:
    """A broker without state accepts any sequence: batch 1 could pass batch 0."""
    queue, batches = queue_of(3)
    assert send_all(queue) == batches[:1]
    queue.on_answer(batches[0], 1, NOT_LEADER, 0)
    assert send_all(queue) == batches[:1]
    queue.on_answer(batches[0], 2, OK, 0)
    assert send_all(queue) == batches[1:]


def test_five_are_in_flight_at_once_where_every_broker_begins_with_0() -> None:
    """Batch 1 cannot pass batch 0 there: refused as out of order, both are sent again."""
    queue, batches = queue_of(7)
    assert send_all(queue, begins_at_0=True) == batches[:5]
    assert queue.on_answer(batches[0], 1, NOT_LEADER, 0) is Verdict.RETRY
    for batch in batches[1:5]:
        assert send_all(queue, begins_at_0=True) == []
        assert queue.on_answer(batch, 1, OUT_OF_ORDER, 0) is Verdict.RETRY
    assert send_all(queue, begins_at_0=True) == batches[:5]


def test_nothing_goes_to_a_new_leader_while_an_old_one_may_still_append() -> None:
    queue, _ = established(1)
    send_all(queue, node=1)
    assert queue.may_go_to(1)
    assert not queue.may_go_to(2)


def test_without_idempotence_one_is_in_flight() -> None:
    queue, batches = queue_of(3, is_idempotent=False)
    assert send_all(queue) == batches[:1]
    assert read_header(batches[0].encode()).producer_id == -1


def test_after_a_failure_nothing_goes_until_all_in_flight_are_answered() -> None:
    queue, batches = established(4)
    send_all(queue)
    assert queue.on_answer(batches[0], 1, NOT_LEADER, 50) is Verdict.RETRY
    assert send_all(queue, now_ms=100) == []
    for batch in batches[1:]:
        assert queue.on_answer(batch, 1, OUT_OF_ORDER, 50) is Verdict.RETRY
    assert send_all(queue, now_ms=49) == []
    assert send_all(queue, now_ms=50) == batches
    assert [batch.base_sequence for batch in batches] == [1, 2, 3, 4]
    assert {batch.identity for batch in batches} == {ProducerIdentity(42, 0)}


def test_never_more_than_five_beyond_the_oldest_unacknowledged() -> None:
    """Batch 0 waits again; 1 to 4 were appended. A broker remembers five: 5 must wait for 0."""
    queue, batches = established(9)
    send_all(queue)
    queue.on_answer(batches[0], 1, Answer(ErrorCode.REQUEST_TIMED_OUT), 0)
    for batch in batches[1:5]:
        queue.on_answer(batch, 1, OK, 0)
    assert send_all(queue) == [batches[0]]
    queue.on_answer(batches[0], 2, OK, 0)
    assert send_all(queue) == batches[5:9]


def test_a_sequence_error_of_a_younger_batch_only_says_that_an_older_is_missing() -> None:
    queue, batches = established(2)
    send_all(queue)
    queue.on_answer(batches[1], 1, OUT_OF_ORDER, 0)
    queue.on_answer(batches[0], 1, OK, 0)
    assert send_all(queue) == [batches[1]]
    assert batches[1].identity.epoch == 0


def test_a_batch_behind_one_that_was_given_up_fails_for_the_same_reason() -> None:
    """A transaction that is given up while batches are in flight was not refused by its broker."""
    queue = PartitionQueue(TP, is_idempotent=True, max_in_flight=5, is_transactional=True)
    queue.on_identity(ProducerIdentity(42, 0))
    older, younger = add(queue, b"0"), add(queue, b"1")
    send_all(queue, begins_at_0=True)
    assert queue.on_answer(older, 1, NOT_ENOUGH, 50) is Verdict.RETRY
    given_up = TransactionAborted("the transaction is aborted")
    queue.fail_waiting(given_up)
    assert queue.on_answer(younger, 1, OUT_OF_ORDER, 0) is Verdict.FAILED
    assert older.outcome is younger.outcome is given_up
    # Nothing of it is left for the next transaction.
    queue.on_identity(ProducerIdentity(42, 1))
    next_one = add(queue, b"2")
    send_all(queue, 100, begins_at_0=True)
    assert queue.on_answer(next_one, 1, OUT_OF_ORDER, 0) is Verdict.FAILED
    assert isinstance(next_one.outcome, DeliveryFailed)


def test_a_sequence_error_of_the_oldest_bumps_the_epoch_and_numbers_from_zero() -> None:
    queue, batches = established(3)
    send_all(queue)
    old_bytes = bytes(batches[0].encode())
    first_copy = batches[0].encoded
    for batch in batches:
        queue.on_answer(batch, 1, OUT_OF_ORDER, 0)
    assert send_all(queue) == batches[:1]
    assert [batch.base_sequence for batch in batches] == [0, 1, 2]
    header = read_header(batches[0].encode())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (42, 1, 0)
    assert bytes(first_copy or b"") == old_bytes, "bytes that may still be on their way changed"


def test_an_expired_batch_leaves_a_gap_that_the_next_one_heals() -> None:
    queue, _ = established(0)
    lost = add(queue, b"lost", deadline_ms=100)
    kept = add(queue, b"kept")
    send_all(queue)
    queue.on_attempt_lost(lost, 1, "connection lost", 0)
    queue.on_attempt_lost(kept, 1, "connection lost", 0)
    assert queue.on_deadlines(100) == [lost]
    assert isinstance(lost.outcome, DeliveryTimeout)
    assert "connection lost" in str(lost.outcome)
    assert send_all(queue, now_ms=100) == [kept]
    assert (kept.identity.epoch, kept.base_sequence) == (0, 2), "the gap is not proven yet"
    queue.on_answer(kept, 2, OUT_OF_ORDER, 100)
    assert send_all(queue, now_ms=100) == [kept]
    assert (kept.identity.epoch, kept.base_sequence) == (1, 0)


def test_a_late_answer_to_an_attempt_given_up_counts_for_nothing() -> None:
    queue, (batch,) = queue_of(1)
    send_all(queue, node=1)
    assert queue.on_leader_changed(2, now_ms=10)
    send_all(queue, now_ms=10, node=2)
    assert queue.on_answer(batch, 1, OK, 0) is Verdict.STALE
    assert batch.outcome is None
    assert queue.on_answer(batch, 2, OK, 0) is Verdict.DONE


def test_without_sequences_an_unanswered_attempt_is_not_given_up_for_a_new_leader() -> None:
    queue, (batch,) = queue_of(1, is_idempotent=False)
    send_all(queue, node=1)
    assert not queue.on_leader_changed(2, now_ms=10)
    assert queue.in_flight == [batch]


def test_a_new_leader_ends_the_backoff() -> None:
    queue, (batch,) = queue_of(1)
    send_all(queue)
    queue.on_answer(batch, 1, NOT_LEADER, 10_000)
    assert send_all(queue, now_ms=1) == []
    queue.on_leader_changed(2, now_ms=1)
    assert send_all(queue, now_ms=1) == [batch]


def test_duplicate_sequence_number_is_success() -> None:
    queue, (batch,) = queue_of(1)
    send_all(queue)
    queue.on_answer(batch, 1, Answer(ErrorCode.DUPLICATE_SEQUENCE_NUMBER), 0)
    assert batch.outcome == Acknowledged(-1, -1)


def test_a_final_refusal_fails_the_batch_and_the_rest_goes_on() -> None:
    queue, batches = established(2)
    send_all(queue)
    queue.on_answer(batches[0], 1, Answer(ErrorCode.MESSAGE_TOO_LARGE), 0)
    assert isinstance(batches[0].outcome, DeliveryFailed)
    queue.on_answer(batches[1], 1, OUT_OF_ORDER, 0)
    assert send_all(queue) == [batches[1]]
    assert (batches[1].identity.epoch, batches[1].base_sequence) == (1, 0)


def test_a_fenced_producer_needs_another_id() -> None:
    queue, batches = established(2)
    send_all(queue)
    queue.on_answer(batches[0], 1, Answer(ErrorCode.INVALID_PRODUCER_EPOCH), 0)
    assert isinstance(batches[0].outcome, ProducerFenced)
    assert queue.needs_identity
    assert queue.refused_id == 42
    queue.on_identity(ProducerIdentity(43, 0))
    assert send_all(queue) == [], "order holds only within one producer id"
    queue.on_answer(batches[1], 1, NOT_LEADER, 0)
    assert send_all(queue) == [batches[1]]
    assert batches[1].identity == ProducerIdentity(43, 0)


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    queue, (batch,) = queue_of(1)
    queue.on_identity(ProducerIdentity(42, MAX_EPOCH))
    send_all(queue)
    queue.on_answer(batch, 1, OUT_OF_ORDER, 0)
    assert send_all(queue) == []
    assert queue.needs_identity
    queue.on_identity(ProducerIdentity(43, 0))
    assert send_all(queue) == [batch]
    assert (batch.identity, batch.base_sequence) == (ProducerIdentity(43, 0), 0)


def test_the_bytes_of_a_sending_do_not_change_while_a_socket_may_hold_them() -> None:
    """As CVE-2026-35554 was: a buffer was used again while it was sent, for another topic."""
    queue, (batch,) = queue_of(1)
    send_all(queue)
    held = batch.encode()
    before = bytes(held)
    batch.number(ProducerIdentity(43, 1), 7, 0)
    assert bytes(batch.encode()) != before
    batch.complete(Acknowledged(0, 0))
    assert bytes(held) == before


def test_sequences_wrap_to_zero() -> None:
    queue, _ = established(0)
    queue._next_sequence = 2**31 - 2
    batches = [add(queue, b"a", b"b"), add(queue, b"c")]
    send_all(queue)
    assert [batch.base_sequence for batch in batches] == [2**31 - 2, 0]


class OneProducerOneLog(RuleBasedStateMachine):
    """A queue against a model of a broker's rules, over a network that loses and delays.

    Two brokers share the log (the leader's changes are replicated before it moves). Whatever
    happens, once the faults stop: every record not refused is in the log once, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queue, _ = queue_of(0)
        self.log = FakePartition(leader=1)
        self.now_ms = 0
        self.sent_count = 0
        self.batches: list[tuple[Batch, list[bytes]]] = []
        self.wires: dict[int, list[tuple[Batch, int, bytes]]] = {1: [], 2: []}
        """Requests on their way to each broker, in order."""
        self.seen_leader = 1
        self.answers: dict[int, list[tuple[Batch, int, Answer]]] = {1: [], 2: []}

    begins_at_0 = False

    @rule(count=st.integers(1, 3))
    def a_batch_comes_in(self, count: int) -> None:
        values = [b"%d" % (self.sent_count + i) for i in range(count)]
        self.sent_count += count
        self.batches.append((add(self.queue, *values), values))

    @rule()
    def send(self) -> None:
        while (
            batch := self.queue.next_to_send(self.now_ms, begins_at_0=self.begins_at_0)
        ) is not None:
            leader = self.seen_leader
            if not self.queue.may_go_to(leader):
                break
            self.queue.on_sent(batch, leader)
            self.wires[leader].append((batch, batch.attempt, bytes(batch.encode())))

    @rule(node=st.sampled_from([1, 2]), fault=st.sampled_from(["", "", "before", "after"]))
    def a_broker_takes_a_request(self, node: int, fault: str) -> None:
        if not self.wires[node]:
            return
        batch, attempt, data = self.wires[node].pop(0)
        if node != self.log.leader:
            answer = NOT_LEADER
        elif fault == "before":
            answer = Answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            code, base = self.take(memoryview(data))
            answer = Answer(code, base)
            if fault == "after" and code is ErrorCode.NONE:
                answer = Answer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        self.answers[node].append((batch, attempt, answer))

    def take(self, data: memoryview) -> tuple[ErrorCode, int]:
        return self.log.produce(data)

    @rule(node=st.sampled_from([1, 2]))
    def an_answer_arrives(self, node: int) -> None:
        if self.answers[node]:
            batch, attempt, answer = self.answers[node].pop(0)
            self.queue.on_answer(batch, attempt, answer, self.now_ms + 50)

    @rule(node=st.sampled_from([1, 2]), taken=st.integers(0, 5))
    def a_connection_breaks(self, node: int, taken: int) -> None:
        """The broker may still carry out some of what it had received."""
        lost = [(b, a) for b, a, _ in self.answers[node]] + [(b, a) for b, a, _ in self.wires[node]]
        for _ in range(taken):
            self.a_broker_takes_a_request(node, "")
        self.answers[node].clear()
        self.wires[node].clear()
        for batch, attempt in lost:
            self.queue.on_attempt_lost(batch, attempt, "lost", self.now_ms + 50)

    @rule()
    def the_leader_moves(self) -> None:
        self.log.leader = 3 - self.log.leader
        self.log.leader_epoch += 1

    @rule()
    def metadata_arrives(self) -> None:
        self.seen_leader = self.log.leader
        self.queue.on_leader_changed(self.log.leader, self.now_ms)

    @precondition(lambda self: self.queue.in_flight)
    @rule()
    def time_passes(self) -> None:
        self.now_ms += 100

    @invariant()
    def the_queue_is_sound(self) -> None:
        self.queue.check_invariants()

    @invariant()
    def acknowledged_records_are_where_they_were_said_to_be(self) -> None:
        log = self.log.values()
        for batch, values in self.batches:
            if isinstance(batch.outcome, Acknowledged) and batch.outcome.base_offset >= 0:
                base = batch.outcome.base_offset
                assert log[base : base + len(values)] == values

    def teardown(self) -> None:
        for _ in range(10 * len(self.batches) + 10):
            self.now_ms += 1_000
            self.metadata_arrives()
            self.send()
            for node in (1, 2):
                while self.wires[node]:
                    self.a_broker_takes_a_request(node, "")
                while self.answers[node]:
                    self.an_answer_arrives(node)
        assert self.queue.is_idle
        assert all(isinstance(batch.outcome, Acknowledged) for batch, _ in self.batches)
        expected: list[Any] = [value for _, values in self.batches for value in values]
        assert self.log.values() == expected


class OneProducerInTransactions(OneProducerOneLog):
    """The same against leaders that take nothing but sequence 0 from whom they do not know."""

    begins_at_0 = True

    def take(self, data: memoryview) -> tuple[ErrorCode, int]:
        header = read_header(data)
        if header.base_sequence and header.producer_id not in self.log.producers:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return self.log.produce(data)


class OneProducerWithRefusals(OneProducerOneLog):
    """The same, but some batches are refused for good or expire: the others keep their order."""

    @rule()
    def the_oldest_is_refused(self) -> None:
        if self.queue.in_flight:
            batch = self.queue.in_flight[0]
            node = self.queue.sent_to
            on_wire = [entry for entry in self.wires[node] if entry[0] is batch]
            if on_wire and self.wires[node][0] is on_wire[-1]:
                self.wires[node].pop(0)
                refusal = Answer(ErrorCode.INVALID_RECORD)
                self.answers[node].append((batch, on_wire[-1][1], refusal))

    @rule()
    def the_oldest_expires(self) -> None:
        oldest = self.queue.oldest
        if oldest is not None:
            oldest.deadline_ms = self.now_ms
            self.queue.on_deadlines(self.now_ms)

    def teardown(self) -> None:
        for _ in range(10 * len(self.batches) + 10):
            self.now_ms += 1_000
            self.metadata_arrives()
            self.send()
            for node in (1, 2):
                while self.wires[node]:
                    self.a_broker_takes_a_request(node, "")
                while self.answers[node]:
                    self.an_answer_arrives(node)
        assert self.queue.is_idle
        log = self.log.values()
        places = []
        for batch, values in self.batches:
            assert batch.outcome is not None
            found = log.count(values[0])
            if isinstance(batch.outcome, Acknowledged):
                assert found == 1, "an acknowledged record is in the log once"
                places.append(log.index(values[0]))
            else:
                assert found <= 1
        assert places == sorted(places)


TestOneProducerOneLog = OneProducerOneLog.TestCase
TestOneProducerOneLog.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
TestOneProducerInTransactions = OneProducerInTransactions.TestCase
TestOneProducerInTransactions.settings = TestOneProducerOneLog.settings
TestOneProducerWithRefusals = OneProducerWithRefusals.TestCase
TestOneProducerWithRefusals.settings = settings(
    max_examples=80, stateful_step_count=60, deadline=None
)
