"""Retries with an order of keys, whatever fails, aborts, restarts or comes back out of order."""

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.client.consumer.retry_batch import Batch, Raw, move_behind, move_of
from minikafka.client.consumer.retry_headers import DLQ, Failure, attempt_of
from minikafka.client.consumer.retry_order import GONE_MS, Blocked, Changes, KeyOrder, Outcome
from minikafka.client.consumer.retry_policy import RetryPolicy, topics_of
from minikafka.client.records import ConsumerRecord
from minikafka.protocol.delays import forwarded_headers
from minikafka.protocol.records.batch_header import TimestampType
from minikafka.protocol.records.record_batch import Headers

LANE = 2
TOPICS = topics_of("g")
POLICY = RetryPolicy(backoff_ms=(1_000, 5_000), order="key")
KEYS = (b"a", b"b", b"c")
MOST_KEYS = 2
SOON_MS = 30_000
"""The longest time after which a record comes back that is due."""


class Retries:
    """One lane of a group: its topic, what waits, and what has come back."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice
        self.now_ms = 1_000
        self.orders: list[Raw] = []
        self.again: list[Raw] = []
        self.waiting: list[tuple[int, Raw]] = []
        """When a record is due, and the record."""
        self.read = {"orders": 0, TOPICS.again: 0}
        self.blocked: dict[bytes, Blocked] = {}
        """The group's topic of blocked keys."""
        self.ended: list[tuple[bytes, int]] = []
        """The key and offset of what was handled, or is a dead letter."""
        self.take_over()

    def take_over(self) -> None:
        """Another member has the lane."""
        self.order = KeyOrder(TOPICS.again, MOST_KEYS)
        self.order.begin(LANE, self.blocked)

    def turn(self) -> None:
        dice = self.dice
        for _ in range(dice.randrange(4)):
            self.orders.append(_record("orders", len(self.orders), dice.choice(KEYS), []))
        self.now_ms += dice.choice([0, 0, 1_000, 5_000, 20_000])
        if dice.random() < 0.03:
            self.now_ms += 2 * GONE_MS  # nobody has read the lane for long
        # They come back in any order, within half a minute; the machine relies on no more.
        due = [each for each in self.waiting if each[0] <= self.now_ms]
        late = [each for each in due if each[0] + SOON_MS < self.now_ms]
        late.sort(key=lambda each: each[0])
        for each in late or dice.sample(due, dice.randint(0, len(due))):
            self._forward(each)
        if dice.random() < 0.1:
            self.take_over()
        batch = self._poll(dice.randrange(6), dice.randrange(6))
        self._handle(batch, lambda _: dice.random() < 0.5)
        moves = batch.moves
        if moves and dice.random() < 0.2:
            batch.stop_before(dice.choice(moves).record)
        if dice.random() < 0.8:
            self._commit(batch)
        self.check()

    def check(self) -> None:
        for key in KEYS:
            ends = [offset for ended, offset in self.ended if ended == key]
            wanted = [each.offset for each in self.orders if each.key == key]
            assert ends == wanted[: len(ends)], key
        assert len(self.blocked) <= MOST_KEYS
        assert self.order.lanes[LANE] == self.blocked

    def finish(self) -> None:
        """Everything ends, and nothing is blocked, once nothing fails any more."""
        for _ in range(3 * len(self.orders) + 20):
            batch = self._poll(5, 5)
            self._handle(batch, lambda _: False)
            self._commit(batch)
            self.now_ms += 1_000
            for each in [each for each in self.waiting if each[0] <= self.now_ms]:
                self._forward(each)
        assert len(self.ended) == len(self.orders)
        assert self.blocked == {}

    def _forward(self, which: tuple[int, Raw]) -> None:
        self.waiting.remove(which)
        due_ms, record = which
        headers = forwarded_headers(record.headers, "g.retry/2/0", due_ms)
        self.again.append(record._replace(offset=len(self.again), headers=headers))

    def _poll(self, come_back: int, new: int) -> Batch:
        start, first = self.read[TOPICS.again], self.read["orders"]
        records = self.again[start : start + come_back] + self.orders[first : first + new]
        return Batch(records, has_lanes=True)

    def _handle(self, batch: Batch, fails: Callable[[Raw], bool]) -> None:
        """As the worker does."""
        order, draft = self.order, batch.draft
        for record in batch.records:
            place = order.place_of(record, draft)
            assert place is not None
            if batch.is_left(record):
                continue
            batch.places[record.topic_partition, record.offset] = place
            due_ms = order.waits_until(record, place, draft, self.now_ms)
            if due_ms is not None:
                batch.move(move_behind(record, "g", due_ms, TOPICS, place))
            elif fails(record):
                error = ValueError()
                failure = Failure(*record[:3], "g", self.now_ms, error)
                wait_ms = POLICY.wait_ms(attempt_of(record.headers), error, 0.0)
                if wait_ms is not None and not order.has_room(record, place, draft):
                    batch.stop_before(record)
                    continue
                batch.move(move_of(record, failure, wait_ms, TOPICS, place))
            batch.done(record)
            self._note(draft, batch, record)

    def _note(self, changes: Changes, batch: Batch, record: Raw) -> None:
        place, move = batch.place_of(record), batch.move_of(record)
        assert place is not None
        outcome = Outcome.DONE if move is None else move.outcome
        self.order.note(changes, record, place, outcome, 0 if move is None else move.due_ms)

    def _commit(self, batch: Batch) -> None:
        changes: Changes = {}
        for record in batch.settled:
            self._note(changes, batch, record)
            move, place = batch.move_of(record), batch.place_of(record)
            assert record.key is not None
            assert place is not None
            if move is None or move.is_dead:
                self.ended.append((record.key, place.offset))
            else:
                assert dict(move.headers)[DLQ + "offset"] == b"%d" % place.offset
                moved = _record(TOPICS.again, -1, record.key, move.headers)
                self.waiting.append((move.due_ms, moved))
        self.order.adopt(changes)
        for (_, key), blocked in changes.items():
            self.blocked.pop(key, None)
            if blocked is not None:
                self.blocked[key] = blocked
        for where, offset in batch.offsets.items():
            self.read[where.topic] = offset


def _record(topic: str, offset: int, key: bytes, headers: Headers) -> Raw:
    return ConsumerRecord(
        topic, LANE, offset, 0, TimestampType.CREATE_TIME, key, b"v", list(headers)
    )


@given(seed=st.integers(0, 2**32))
@settings(max_examples=200)
def test_each_key_ends_in_its_order_and_nothing_is_lost_or_doubled(seed: int) -> None:
    retries = Retries(Random(seed))
    for _ in range(80):
        retries.turn()
    retries.finish()
