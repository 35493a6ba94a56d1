"""Commit groups under drivers that die, repeat and come back, tasks that fail, and failovers.

Whatever happens, the transactions of one batch are committed all by one decision, which never
changes; no batch is decided twice; who was followed by another run decides nothing any more.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.coordinator.transaction.commit_group import Named
from minikafka.broker.coordinator.transaction.transaction import EXHAUSTED_EPOCH, State
from minikafka.protocol.errors import ErrorCode

from ..broker.commit_group_lab import GROUP, CommitGroupLab, member

pytestmark = pytest.mark.slow

TASKS = ("0", "1", "0/0.1")
ACTIONS = (
    *("new run", "open 0", "open 1", "open 0/0.1", "commit", "commit", "repeat", "empty", "again"),
    *("overdue", "written", "fail over", "unanswered", "lost", "broken", "mended"),
)


@dataclass
class Driver:
    """A run of the work: what it knows, and what it has prepared."""

    run: str
    generation: int = -1
    batch: int = 0
    prepared: dict[str, Named] = field(default_factory=dict)
    asked: tuple[int, tuple[Named, ...]] | None = None
    """Its newest commit."""


class World:
    """The coordinator, two drivers of one group, and what was ever promised."""

    def __init__(self, level: int) -> None:
        self.lab = CommitGroupLab(level)
        self.promised: dict[int, tuple[Named, ...]] = {}
        """What each batch was told to consist of."""
        self.runs = 0

    def act(self, action: str, driver: Driver) -> None:
        lab = self.lab
        if action == "new run":
            self.begin(driver)
        elif action.startswith("open") and lab.commits:
            name = action.removeprefix("open ")
            driver.prepared[name] = lab.open(name)
        elif action in ("commit", "empty"):
            driver.asked = (driver.batch, tuple(driver.prepared.values()))
            if action == "empty":
                driver.asked = (driver.batch, ())
            self.commit(driver)
        elif action == "repeat" and driver.asked is not None:
            self.commit(driver)
        elif action == "again":
            driver.batch = max(0, driver.batch - 1)
        elif action == "overdue":
            for name in [name for name in TASKS if member(name) in lab.open_now()]:
                if lab.transaction(name).epoch < EXHAUSTED_EPOCH:
                    lab.time_out(name)
        elif action == "written":
            lab.complete()
        elif action == "fail over":
            self.lab = lab.fail_over()
        elif action in ("unanswered", "lost"):
            self.die(driver, loses=action == "lost")
        elif action in ("broken", "mended"):
            lab.commits = action == "mended"
        self.check()

    def begin(self, driver: Driver) -> None:
        self.runs += 1
        driver.run, driver.asked = f"run {self.runs}", None
        driver.prepared.clear()
        found = self.lab.run(driver.run)
        if not found.error:
            assert found.group is not None
            driver.generation, driver.batch = found.group.generation, found.group.batch_id + 1

    def die(self, driver: Driver, *, loses: bool) -> None:
        """The coordinator dies with the decision, or only with its answer."""
        lab, transactions = self.lab, tuple(driver.prepared.values())
        driver.asked = (driver.batch, transactions)
        found = lab.decide(driver.generation, driver.batch, *transactions)
        is_new = not found.error and not found.is_replay
        if is_new and not loses:
            self.promised[driver.batch] = transactions
        self.lab = lab.fail_over(without_last=is_new and loses)

    def commit(self, driver: Driver) -> None:
        assert driver.asked is not None
        batch, transactions = driver.asked
        group = self.lab.ledger.groups.get(GROUP)
        was_newest = group is not None and group.generation == driver.generation
        recorded = -1 if group is None else group.batch_id
        before = dict(self.lab.states())
        found = self.lab.commit(driver.generation, batch, *transactions)
        if found.error:
            assert self.lab.states() == before
            return
        assert was_newest
        if found.is_replay:
            assert batch <= recorded
            driver.batch = max(driver.batch, batch + 1)
            return
        assert batch > recorded
        assert batch not in self.promised
        self.promised[batch] = transactions
        assert self.lab.open_now() == []
        driver.batch = batch + 1
        driver.prepared.clear()

    def check(self) -> None:
        committed = {
            (each.producer_id, each.epoch - (self.lab.level == 2))
            for each in self.lab.ledger
            if each.state is State.PREPARE_COMMIT
        }
        promised = {each[1:] for named in self.promised.values() for each in named}
        assert committed <= promised
        for named in self.promised.values():
            for transactional_id, producer_id, epoch in named:
                present = self.lab.ledger.get(transactional_id)
                assert present is not None
                if (present.producer_id, present.epoch) == (producer_id, epoch):
                    # Without the epoch bump it is that of the transaction until the next begins.
                    assert present.state in (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
        group = self.lab.ledger.groups.get(GROUP)
        newest = max(self.promised, default=-1)
        assert (-1 if group is None else group.batch_id) == newest


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from((1, 2)),
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.sampled_from((0, 0, 0, 1))), min_size=10, max_size=60
    ),
)
def test_a_batch_is_decided_once_and_as_a_whole(level: int, story: list[tuple[str, int]]) -> None:
    world = World(level)
    drivers = [Driver("none"), Driver("none")]
    world.begin(drivers[0])
    for action, who in story:
        world.act(action, drivers[who])


def test_the_story_reaches_what_it_is_about() -> None:
    """A replay, a fenced driver and an aborted loser are within its reach."""
    world, drivers = World(2), [Driver("none"), Driver("none")]
    world.begin(drivers[0])
    for action in ("open 0", "open 1", "commit", "repeat", "written", "open 0"):
        world.act(action, drivers[0])
    world.act("new run", drivers[1])
    before = world.lab.commit(drivers[0].generation, 1, *drivers[0].prepared.values())
    assert before.error is ErrorCode.PRODUCER_FENCED
    world.act("empty", drivers[1])
    assert sorted(world.promised) == [0, 1]
    assert world.lab.states()["0/0.0"] is State.PREPARE_ABORT
