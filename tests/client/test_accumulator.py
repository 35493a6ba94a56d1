"""Records whose topic is not known yet."""

import random
from collections.abc import Callable
from typing import Any

from minikafka.client.cluster import PartitionView
from minikafka.client.config import ProducerConfig, configured
from minikafka.client.errors import ClientClosed, ClientError, UnknownTopic
from minikafka.client.producer.accumulator import Accumulator, Loss, Parked
from minikafka.client.producer.batch import Batch
from minikafka.protocol.errors import ErrorCode

NONE = ErrorCode.NONE
CONFIG = configured(
    ProducerConfig,
    "localhost:1",
    {"batch_size": 1000, "linger_ms": 0, "buffer_memory": 1000, "delivery_timeout_ms": 1000},
)


class Waiting:
    """A claim that must not be compared: with many records waiting, that takes minutes."""

    def __init__(self) -> None:
        self.error: ClientError | None = None

    def bind(self, batch: Batch, index: int) -> None:
        raise AssertionError("no batch can carry it")

    def fail(self, error: ClientError) -> None:
        assert self.error is None
        self.error = error

    def when_done(self, watcher: Callable[[], None]) -> None:
        raise AssertionError("nobody waits")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


def park(accumulator: Accumulator, deadlines: list[int]) -> list[Waiting]:
    claims = [Waiting() for _ in deadlines]
    for deadline_ms, claim in zip(deadlines, claims, strict=True):
        accumulator.park("t", Parked((0, None, b"v", ()), None, 100, deadline_ms, claim))
    return claims


def test_those_whose_time_is_over_fail_and_the_others_wait_on() -> None:
    accumulator = Accumulator(CONFIG, random.Random(0), lambda: None)
    claims = park(accumulator, [10, 10, 10, 20, 20])
    assert accumulator.next_wake_ms(0) == 10
    (loss,) = accumulator.on_deadlines(10)
    assert loss.record_count == 3
    assert str(loss.why) == "t: the cluster does not have it"
    assert [type(claim.error) for claim in claims] == [UnknownTopic] * 3 + [type(None)] * 2
    assert accumulator.used_bytes == 200
    assert accumulator.next_wake_ms(10) == 20
    accumulator.on_deadlines(20)
    assert accumulator.is_empty
    assert accumulator.used_bytes == 0


def test_a_refused_topic_fails_all_that_wait_for_it() -> None:
    accumulator = Accumulator(CONFIG, random.Random(0), lambda: None)
    claims = park(accumulator, [10, 20, 30])
    why = UnknownTopic("t")
    assert accumulator.on_topic_refused("t", why) == [Loss(3, why)]
    assert accumulator.on_topic_refused("t", why) == []
    assert [type(claim.error) for claim in claims] == [UnknownTopic] * 3
    assert accumulator.is_empty


def test_records_that_still_wait_for_their_topic_are_counted_when_all_is_given_up() -> None:
    accumulator = Accumulator(CONFIG, random.Random(0), lambda: None)
    claims = park(accumulator, [10, 20, 30])
    why = ClientClosed("the producer was closed before the ack")
    assert accumulator.fail_all(why) == [Loss(3, why)]
    assert [claim.error for claim in claims] == [why] * 3
    assert accumulator.is_empty


def test_records_for_a_partition_that_the_topic_turns_out_not_to_have_are_counted() -> None:
    accumulator = Accumulator(CONFIG, random.Random(0), lambda: None)
    claims = [Waiting(), Waiting()]
    for claim in claims:
        accumulator.park("t", Parked((0, None, b"v", ()), 7, 100, 10, claim))
    (loss,) = accumulator.on_topic("t", {0: PartitionView(1, 0, (1,), (1,), (), NONE)}, 0)
    assert (loss.record_count, str(loss.why)) == (2, "t-7: it has 1 partitions")
    assert accumulator.is_empty


def test_a_record_that_moves_into_its_batch_is_never_missing_from_the_bytes_in_use() -> None:
    """Other threads read them in between, and would send a record more than there is room for."""

    class Watched(Accumulator):
        def append(self, *record: Any) -> Batch:
            seen.append(self.used_bytes)
            return super().append(*record)

    class Carried(Waiting):
        def bind(self, batch: Batch, index: int) -> None:
            pass

    seen: list[int] = []
    accumulator = Watched(CONFIG, random.Random(0), lambda: None)
    for _ in range(3):
        accumulator.park("t", Parked((0, None, b"v", ()), None, 100, 10, Carried()))
    assert accumulator.on_topic("t", {0: PartitionView(1, 0, (1,), (1,), (), NONE)}, 0) == []
    assert seen == [300, 300, 300]
    assert accumulator.used_bytes == 300
