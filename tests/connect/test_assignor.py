"""Assignment of connectors and tasks, round after round, with a group that is simulated by hand."""

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect.assignor import Assignor, Plan, Worker
from minikafka.connect.states import TaskId

DELAY_MS = 300_000


def work(connectors: int, tasks: int) -> list[TaskId]:
    return [TaskId(f"c{each}", task) for each in range(connectors) for task in range(-1, tasks)]


@dataclass
class Group:
    """Workers that do as they are told; their held items are checked after each round."""

    assignor: Assignor = field(default_factory=lambda: Assignor(DELAY_MS))
    held: dict[str, list[TaskId]] = field(default_factory=dict)
    leaving: dict[str, None] = field(default_factory=dict)
    urls: dict[str, str] = field(default_factory=dict)
    stopped: Counter[str] = field(default_factory=Counter)
    generation: int = 0
    now_ms: int = 0

    def round(self, configured: list[TaskId]) -> Plan:
        self.generation += 1
        workers = {
            member: Worker(self.urls.get(member, member), tuple(items), member in self.leaving)
            for member, items in self.held.items()
        }
        before = {item for items in self.held.values() for item in items}
        plan = self.assignor.assign(self.generation, workers, configured, self.now_ms)
        assert plan.shares.keys() == self.held.keys()
        given = [item for share in plan.shares.values() for item in share.assigned]
        assert len(given) == len(set(given)), "given twice"
        assert not before & set(given), "given while somebody holds it"
        for member, share in plan.shares.items():
            assert set(share.revoked) <= set(self.held[member])
            assert not (member in self.leaving and share.assigned)
            kept = [item for item in self.held[member] if item not in share.revoked]
            self.held[member] = kept + share.assigned
            self.stopped[member] += len(share.revoked)
        return plan

    def settle(self, configured: list[TaskId]) -> Plan:
        """Run rounds as long as somebody must stop something."""
        for _ in range(4):
            plan = self.round(configured)
            if not any(share.revoked for share in plan.shares.values()):
                return plan
        raise AssertionError("the group does not come to rest")

    def check(self, configured: list[TaskId]) -> None:
        running = Counter(item for items in self.held.values() for item in items)
        assert running == Counter(configured)
        for is_connector in (True, False):
            loads = [
                sum((item.task == -1) is is_connector for item in items)
                for member, items in self.held.items()
                if member not in self.leaving
            ]
            assert max(loads) - min(loads) <= 1


def group_of(*members: str, delay_ms: int = DELAY_MS) -> Group:
    return Group(Assignor(delay_ms), {member: [] for member in members})


def test_x_03_each_task_runs_once_and_the_load_is_even() -> None:
    group = group_of("a", "b", "c")
    configured = work(5, 4)
    group.settle(configured)
    group.check(configured)
    assert sorted(len(items) for items in group.held.values()) == [8, 8, 9]
    assert group.stopped.total() == 0


def test_x_04_only_what_moves_to_a_new_worker_stops() -> None:
    group = group_of("a", "b", "c")
    configured = work(5, 4)
    group.settle(configured)
    group.held["d"] = []
    group.settle(configured)
    group.check(configured)
    moved = len(group.held["d"])
    assert group.stopped.total() == moved == 6


def test_x_05_the_work_of_a_vanished_worker_waits_and_then_moves() -> None:
    group = group_of("a", "b", "c")
    configured = work(3, 2)
    group.settle(configured)
    lost = group.held.pop("b")
    plan = group.round(configured)
    assert plan.delay_ms == DELAY_MS
    assert plan.waiting == tuple(sorted(lost))
    group.now_ms = DELAY_MS - 1
    assert group.round(configured).delay_ms == 1
    group.now_ms = DELAY_MS
    plan = group.settle(configured)
    assert plan.delay_ms == 0
    group.check(configured)
    assert group.stopped.total() == 0


def test_x_05_a_worker_that_returns_gets_its_own_back_at_once() -> None:
    group = group_of("a", "b", "c")
    configured = work(3, 2)
    group.settle(configured)
    lost = group.held.pop("b")
    group.now_ms = 1000
    group.round(configured)
    group.held["b-again"] = []
    group.urls["b-again"] = "b"
    group.now_ms = 2000
    plan = group.settle(configured)
    assert plan.delay_ms == 0
    assert sorted(group.held["b-again"]) == sorted(lost)
    assert group.stopped.total() == 0


def test_x_05_a_worker_that_comes_meanwhile_gets_what_waited() -> None:
    group = group_of("a", "b")
    configured = work(2, 2)
    group.settle(configured)
    lost = group.held.pop("b")
    group.round(configured)
    group.held["c"] = []
    group.now_ms = 1000
    plan = group.round(configured)
    assert plan.delay_ms == DELAY_MS - 1000
    assert group.held["c"] == []
    group.now_ms = DELAY_MS
    group.settle(configured)
    assert sorted(group.held["c"]) == sorted(lost)


def test_x_06_what_a_worker_held_that_leaves_in_order_moves_at_once() -> None:
    group = group_of("a", "b", "c")
    configured = work(3, 2)
    group.settle(configured)
    group.held["b"] = []  # It stops its work before it joins for the last time.
    group.leaving["b"] = None
    plan = group.settle(configured)
    assert plan.delay_ms == 0
    group.check(configured)
    del group.held["b"]
    assert group.settle(configured).delay_ms == 0
    assert group.stopped.total() == 0


def test_x_07_without_a_delay_work_moves_at_once() -> None:
    group = group_of("a", "b", delay_ms=0)
    configured = work(2, 2)
    group.settle(configured)
    del group.held["b"]
    assert group.settle(configured).delay_ms == 0
    group.check(configured)


def test_what_was_not_received_is_given_again_at_once() -> None:
    group = group_of("a", "b")
    configured = work(2, 2)
    group.settle(configured)
    group.held["b"] = []
    assert group.settle(configured).delay_ms == 0
    group.check(configured)


def test_what_two_workers_hold_is_taken_from_both_and_given_to_one() -> None:
    group = group_of("a", "b")
    configured = work(2, 2)
    group.settle(configured)
    twice = group.held["a"][0]
    group.held["b"].append(twice)
    plan = group.round(configured)
    assert twice in plan.shares["a"].revoked
    assert twice in plan.shares["b"].revoked
    group.settle(configured)
    group.check(configured)


def test_what_is_deleted_stops_and_nothing_else() -> None:
    group = group_of("a", "b")
    group.settle(work(2, 2))
    before = {member: list(items) for member, items in group.held.items()}
    plan = group.round(work(1, 2))
    for member, items in before.items():
        assert plan.shares[member].revoked == [each for each in items if each.connector == "c1"]


def test_another_leader_between_two_generations_leaves_nothing_waiting() -> None:
    group = group_of("a", "b")
    configured = work(2, 2)
    group.settle(configured)
    del group.held["b"]
    group.generation += 1  # Somebody else assigned in between.
    assert group.settle(configured).delay_ms == 0
    group.check(configured)


def test_a_group_of_leavers_is_given_nothing() -> None:
    group = group_of("a")
    group.leaving["a"] = None
    assert group.round(work(1, 1)).shares["a"].assigned == []


MEMBERS = ["a", "b", "c", "d", "e"]
WHAT = ["join", "die", "leave", "miss", "configure", "wait", "coup"]
moves = st.tuples(
    st.sampled_from(WHAT),
    st.sampled_from(MEMBERS),
    st.tuples(st.integers(0, 4), st.integers(0, 6)),
    st.sampled_from([0, 1, DELAY_MS // 2, DELAY_MS]),
)


@given(st.lists(moves, max_size=40))
def test_whatever_happens_nothing_runs_twice_and_in_the_end_all_is_even(
    script: list[tuple[str, str, tuple[int, int], int]],
) -> None:
    group = group_of("a")
    configured = work(2, 3)
    for what, member, size, ms in script:
        is_here = member in group.held
        is_one_of_many = is_here and len(group.held) > 1
        if what == "join":
            group.held.setdefault(member, [])
        elif what == "die" and is_one_of_many:
            del group.held[member]
        elif what == "miss" and is_here:
            group.held[member] = []
        elif what == "leave" and is_one_of_many:
            group.held[member] = []
            group.leaving[member] = None
            group.round(configured)
            del group.held[member], group.leaving[member]
        elif what == "coup":
            group.generation += 1  # Another member led in between.
        elif what == "configure":
            configured = work(*size)
        elif what == "wait":
            group.now_ms += ms
        group.round(configured)
    group.now_ms += DELAY_MS
    group.settle(configured)
    group.check(configured)


@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 8), st.integers(1, 3))
def test_no_more_moves_than_must(workers: int, connectors: int, tasks: int, new: int) -> None:
    group = group_of(*(f"w{each}" for each in range(workers)))
    configured = work(connectors, tasks)
    group.settle(configured)
    for each in range(new):
        group.held[f"x{each}"] = []
    group.settle(configured)
    group.check(configured)
    assert group.stopped.total() == sum(len(group.held[f"x{each}"]) for each in range(new))
