"""What a step takes: what is due, and what waits for its target, in turns and in order."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from minikafka.broker.forward.due_index import DueIndex, Entry
from minikafka.broker.forward.pace import Pace
from minikafka.broker.forward.parked import TooMuch
from minikafka.broker.forward.shelves import Reason
from minikafka.broker.forward.steps import MOST_PLANNED, Kind, Plan
from minikafka.broker.forward.taking import RETRY_MS, ROUNDS, Taking
from minikafka.broker.forward.targets import Targets
from minikafka.protocol.types import TopicIdPartition

T0 = TopicIdPartition(b"t" * 16, 0)


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no notice of the simulator's smaller ones."""
    monkeypatch.setattr(Taking, "most_open", 50)
    monkeypatch.setattr(Taking, "most_open_shared", 500)


class Ground:
    """The parts that taking uses; at most `fits` records are small enough together."""

    def __init__(self) -> None:
        self.now_ms = 10_000
        self.fits = 1 << 20
        self.topics: dict[str, object] = {}
        self.over: dict[Entry, None] = {}
        self.pace = Pace()
        self.runtime = SimpleNamespace(
            monotonic_ms=lambda: self.now_ms, wall_ms=lambda: self.now_ms
        )
        state = SimpleNamespace(is_over=self.over.__contains__)
        self.schedule = SimpleNamespace(index=DueIndex(), state=state)
        self.parked = self
        config = SimpleNamespace(delay=SimpleNamespace(authorize=""))
        self.partition = SimpleNamespace(log=SimpleNamespace(config=config))

    async def read(self, offsets: Iterable[int], most: int | None = None) -> dict[int, object]:
        found: dict[int, object] = dict.fromkeys(offsets)
        if len(found) > self.fits:
            raise TooMuch
        return found

    def image(self) -> Any:
        return SimpleNamespace(topic=self.topics.get)

    def may_write_as(self, name: str) -> Any:
        return lambda topic: True


def taking_on(ground: Ground, targets: Targets | None = None) -> Taking:
    return Taking(ground, targets or Targets(), lambda: True)  # type: ignore[arg-type]


async def taken(ground: Ground, taking: Taking) -> list[int]:
    """Take for one step, which plans all of it."""
    ground.now_ms += 100
    assert await taking.read() is not None
    offsets = [each.offset for each in taking.taken]
    taking.taken = []
    return offsets


async def test_records_that_are_too_large_together_keep_their_order_on_the_shelf() -> None:
    ground = Ground()
    ground.fits = 100
    taking = taking_on(ground)
    taking.shelves.add(T0, [Entry(each, each) for each in range(3 * MOST_PLANNED)])
    found: list[int] = []
    while T0 in taking.shelves:
        found += await taken(ground, taking)
    assert found == list(range(3 * MOST_PLANNED))


async def test_what_is_given_back_is_where_it_was() -> None:
    ground = Ground()
    taking = taking_on(ground)
    taking.shelves.add(T0, [Entry(1, 1)])
    ground.schedule.index.add([Entry(2, 2)])
    for _ in range(2):
        ground.now_ms += 100
        await taking.read()
        taking.give_back()
    assert [len(shelf) for shelf in taking.shelves] == [1]
    assert len(ground.schedule.index) == 1
    taking.close()
    assert (len(ground.schedule.index), taking.shelves.reasons) == (2, [])


async def held_behind(ground: Ground, taking: Taking, reason: Reason, *, several: bool) -> bool:
    """Take a part of a shelf, then what is due; return whether that has to wait for the rest."""
    many = [Entry(each, each) for each in range(MOST_PLANNED + 1)]
    taking.shelve({reason: many})
    ground.schedule.index.add([Entry(5_000, 5_000)])
    assert await taken(ground, taking) == list(range(MOST_PLANNED))
    assert await taken(ground, taking) == [5_000]
    return taking.is_held(reason, several)


async def test_what_waited_for_a_topic_goes_before_what_is_due_later() -> None:
    ground = Ground()
    taking = taking_on(ground)
    ground.topics["orders"] = object()
    assert await held_behind(ground, taking, "orders", several=False)
    ground = Ground()
    assert await held_behind(ground, taking_on(ground), T0, several=False)


async def test_a_topic_that_is_missing_is_looked_for_again_however_many_come() -> None:
    ground = Ground()
    taking = taking_on(ground)
    taking.shelve({"gone": [Entry(1, 1)]})
    looked = 0
    for number in range(100):
        ground.schedule.index.add([Entry(ground.now_ms, 1_000 + number)])
        ground.now_ms += RETRY_MS // 2
        await taking.read()
        looked += any(each.offset == 1 for each in taking.taken)
        taking.shelve({"gone": list(taking.taken)})
    assert looked >= 30


async def test_all_that_is_overdue_for_a_missing_topic_is_looked_at_at_once() -> None:
    ground = Ground()
    taking = taking_on(ground)
    taking.shelve({"gone": [Entry(each, each) for each in range(5 * MOST_PLANNED)]})
    ground.now_ms += RETRY_MS
    found = [await taken(ground, taking) for _ in range(5)]
    assert [len(each) for each in found] == [MOST_PLANNED] * 5


def plans(kind: Kind, count: int) -> Iterable[Plan]:
    return (Plan(each, T0, each, 0, kind, 0, 5, (each,)) for each in range(count))


async def test_records_with_several_targets_pass_what_waits_unless_such_records_do() -> None:
    ground, targets = Ground(), Targets()
    taking = taking_on(ground, targets)
    assert not await held_behind(ground, taking, T0, several=True)
    ground, targets = Ground(), Targets()
    taking = taking_on(ground, targets)
    for plan in plans(Kind.DUE, Taking.most_open_shared):
        targets.add(plan)
    assert taking.is_held(T0, True)
    for queue in list(targets)[10:]:
        queue.plans.clear()
    assert await held_behind(ground, taking, T0, several=True)


async def test_the_plans_of_one_target_are_counted_once_a_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ground, targets = Ground(), Targets()
    for plan in plans(Kind.ALONE, 10_000):
        targets.add(plan)
    taking, asked = taking_on(ground, targets), list[TopicIdPartition]()
    count = targets.open_plans

    def counted(target: TopicIdPartition) -> int:
        asked.append(target)
        return count(target)

    monkeypatch.setattr(targets, "open_plans", counted)
    await taking.read()
    assert not any(taking.is_held(T0, False) for _ in range(1_000))
    assert asked == [T0]


async def test_what_is_over_is_passed_over_in_turns() -> None:
    ground = Ground()
    taking = taking_on(ground)
    entries = [Entry(each, each) for each in range(2 * ROUNDS * MOST_PLANNED + 1)]
    ground.now_ms = len(entries)
    ground.schedule.index.add(entries)
    ground.over.update(dict.fromkeys(entries[:-1]))
    sizes = [len(await taken(ground, taking)) for _ in range(3)]
    assert sizes == [0, 0, 1]
