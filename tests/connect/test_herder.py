"""One worker's machine: what it starts, stops and asks, in milliseconds and without a cluster."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.connect.config_log import (
    ConfigLog,
    Row,
    SessionKey,
    connector_row,
    fencing_row,
    logger_row,
    removal_rows,
    restart_row,
    session_key_row,
    target_row,
    tasks_rows,
)
from minikafka.connect.group_protocol import CONFIG_MISMATCH, Assignment, connector_of
from minikafka.connect.herder import (
    READ_ATTEMPTS,
    DropStatuses,
    Effect,
    Fence,
    GiveUp,
    Herder,
    MakeSessionKey,
    Phase,
    PlanTasks,
    ReadConfig,
    Rejoin,
    Report,
    Rules,
    Run,
    SetLogger,
    SetTarget,
    StartConnector,
    StartTask,
    StopConnector,
    StopTasks,
)
from minikafka.connect.states import State, TargetState, TaskId

PROPS = {"connector.class": "C"}
TASKS = [{"n": "0"}, {"n": "1"}]
CONNECTOR = connector_of("a")
T0, T1 = TaskId("a", 0), TaskId("a", 1)
ALL = (CONNECTOR, T0, T1)


@dataclass
class Lab:
    """A herder with its config topic."""

    rules: Rules = field(default_factory=Rules)
    herder: Herder = field(init=False)
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.herder = Herder(ConfigLog(), self.rules)

    def read(self, *rows: Row) -> list[Effect]:
        effects: list[Effect] = []
        for row in rows:
            config = self.herder.config
            change = config.apply(row.key, row.value, config.offset)
            if change is not None:
                effects += self.herder.on_change(change)
        return effects

    def assign(self, *held: TaskId, leads: bool = False, **given: int) -> list[Effect]:
        offset = given.pop("offset", self.herder.config.offset)
        assignment = Assignment(config_offset=offset, scheduled_delay_ms=given.pop("delay", 0))
        return self.herder.on_assignment(assignment, held, self.now_ms, is_leader=leads)


def running(rules: Rules | None = None, *, leads: bool = False) -> Lab:
    """Return a worker that runs a connector and its two tasks."""
    lab = Lab(rules or Rules())
    lab.read(connector_row("a", PROPS), *tasks_rows("a", TASKS))
    lab.assign(*ALL, leads=leads)
    return lab


def starts(effects: list[Effect]) -> list[TaskId]:
    return [
        each.task if isinstance(each, StartTask) else connector_of(each.name)
        for each in effects
        if isinstance(each, StartTask | StartConnector)
    ]


def test_a_new_connector_makes_the_worker_join_again_and_starts_once_it_is_given() -> None:
    lab = Lab()
    lab.assign(offset=0)
    assert lab.read(connector_row("a", PROPS)) == [Rejoin("a connector was created")]
    assert lab.assign(CONNECTOR) == [StartConnector("a", PROPS, TargetState.STARTED)]
    assert lab.herder.on_status(CONNECTOR, State.RUNNING) == [PlanTasks("a")]
    assert lab.herder.differs("a", TASKS)
    assert lab.read(*tasks_rows("a", TASKS)) == [Rejoin("connector a has other tasks")]
    assert lab.assign(*ALL) == [
        StartTask(T0, PROPS, TASKS[0], TargetState.STARTED),
        StartTask(T1, PROPS, TASKS[1], TargetState.STARTED),
    ]
    assert not lab.herder.differs("a", TASKS)


def test_x_11_a_worker_behind_the_assignment_reads_before_it_starts_anything() -> None:
    lab = Lab()
    assert lab.assign(*ALL, offset=4) == [ReadConfig()]
    assert starts(lab.read(connector_row("a", PROPS), *tasks_rows("a", TASKS))) == []
    assert starts(lab.herder.on_read()) == list(ALL)
    assert lab.herder.phase is Phase.STEADY


def test_x_11_a_mismatch_is_answered_by_reading_and_joining_again() -> None:
    lab = running()
    mismatch = Assignment(error=CONFIG_MISMATCH, config_offset=lab.herder.config.offset)
    assert lab.herder.on_assignment(mismatch, ALL, 0, is_leader=False) == [ReadConfig()]
    assert lab.herder.on_read() == [Rejoin("the config topic was read to its end")]
    assert list(lab.herder.runs) == list(ALL)  # What it held runs on.


def test_x_11_after_five_failed_reads_the_work_is_given_up_and_then_asked_for_again() -> None:
    lab = running()
    lab.assign(*ALL, offset=9)
    assert lab.herder.on_read() == [ReadConfig()]  # Its end is not that of the assignment.
    for _ in range(READ_ATTEMPTS - 2):
        assert lab.herder.on_read_failed() == [ReadConfig()]
    effects = lab.herder.on_read_failed()
    assert effects[:2] == [StopTasks((T0, T1)), StopConnector("a")]
    assert isinstance(effects[2], GiveUp)
    assert effects[3:] == [ReadConfig()]
    assert lab.herder.phase is Phase.OUTSIDE
    assert lab.herder.on_read_failed() == [ReadConfig()]
    assert lab.herder.on_read() == [Rejoin("the config topic can be read again")]


def test_x_04_what_is_revoked_stops_and_the_rest_runs_on() -> None:
    lab = running()
    assert lab.herder.on_revoked([T1]) == [StopTasks((T1,))]
    assert lab.assign(CONNECTOR, T0) == []


def test_x_08_a_worker_that_is_lost_stops_everything() -> None:
    lab = running(leads=True)
    assert lab.herder.on_lost() == [StopTasks((T0, T1)), StopConnector("a")]
    assert not lab.herder.is_leader
    assert lab.read(*tasks_rows("a", TASKS)) == [Rejoin("connector a has other tasks")]
    assert lab.herder.runs == {}


def test_other_tasks_stop_at_once_and_start_only_when_all_workers_know_of_them() -> None:
    lab = running()
    before = lab.herder.config.offset
    assert lab.read(*tasks_rows("a", [TASKS[0], {"n": "2"}])) == [
        StopTasks((T0, T1)),
        Rejoin("connector a has other tasks"),
    ]
    # An assignment by a leader that did not know of them starts nothing, and is not the last.
    assert lab.assign(*ALL, offset=before) == [
        Rejoin("the config topic has changed since the assignment")
    ]
    assert starts(lab.assign(*ALL)) == [T0, T1]


def test_x_09_an_incomplete_set_stops_the_tasks_and_asks_the_connector_again() -> None:
    lab = running()
    rows = tasks_rows("a", TASKS)
    assert lab.read(rows[0], rows[2]) == [
        StopTasks((T0, T1)),
        PlanTasks("a"),
        Rejoin("connector a has other tasks"),
    ]
    assert lab.herder.differs("a", TASKS)
    assert starts([*lab.read(*rows), *lab.assign(*ALL)]) == [T0, T1]


def test_an_equal_configuration_restarts_nothing_and_another_one_only_the_connector() -> None:
    lab = running()
    assert lab.read(connector_row("a", PROPS)) == []
    other = {**PROPS, "x": "y"}
    assert lab.read(connector_row("a", other)) == [
        StopConnector("a"),
        StartConnector("a", other, TargetState.STARTED),
    ]
    # Its tasks run with what they were made from, until the leader commits them anew.
    assert lab.herder.runs[T0] == Run(PROPS, TASKS[0])
    assert lab.herder.differs("a", TASKS)
    lab.read(*tasks_rows("a", TASKS))
    lab.assign(*ALL)
    assert lab.herder.runs[T0] == Run(other, TASKS[0])


def test_a_deleted_connector_stops() -> None:
    lab = running()
    assert lab.read(*removal_rows("a", 2)) == [
        StopTasks((T0, T1)),
        StopConnector("a"),
        Rejoin("connector a was deleted"),
    ]


def test_targets_pause_resume_and_stop() -> None:
    lab = running()
    assert lab.read(target_row("a", TargetState.PAUSED)) == [SetTarget("a", TargetState.PAUSED)]
    assert lab.read(target_row("a", TargetState.STARTED)) == [
        SetTarget("a", TargetState.STARTED),
        PlanTasks("a"),
    ]
    stopped = lab.read(*tasks_rows("a", []), target_row("a", TargetState.STOPPED))
    assert stopped == [
        StopTasks((T0, T1)),
        Rejoin("connector a has other tasks"),
        StopConnector("a"),
        Report(CONNECTOR, State.STOPPED),
    ]
    assert not lab.herder.differs("a", TASKS)  # It is asked for no tasks while it is stopped.
    assert lab.assign(CONNECTOR) == []
    assert starts(lab.read(target_row("a", TargetState.STARTED))) == [CONNECTOR]


def test_x_20_a_restart_takes_what_runs_here_and_if_asked_only_what_has_failed() -> None:
    lab = running()
    lab.herder.on_status(T1, State.FAILED)
    assert lab.read(restart_row("a", include_tasks=True, only_failed=True)) == [
        Report(T1, State.RESTARTING),
        StopTasks((T1,)),
        StartTask(T1, PROPS, TASKS[1], TargetState.STARTED),
    ]
    assert lab.read(restart_row("a", include_tasks=True, only_failed=True)) == []
    alone = lab.read(restart_row("a", include_tasks=False, only_failed=False))
    assert starts(alone) == [CONNECTOR]
    every = lab.read(restart_row("a", include_tasks=True, only_failed=False))
    assert starts(every) == list(ALL)
    assert lab.read(restart_row("b", include_tasks=True, only_failed=False)) == []


EXACTLY = Rules(leader_fences=True, tasks_wait=True, is_source=lambda props: True)


def test_x_36_tasks_of_a_source_wait_until_the_old_producers_are_fenced() -> None:
    lab = Lab(EXACTLY)
    lab.read(connector_row("a", PROPS), *tasks_rows("a", TASKS))
    effects = lab.assign(*ALL, leads=True)
    assert starts(effects) == [CONNECTOR]
    assert Fence("a") in effects
    assert starts(lab.read(fencing_row("a", 2))) == [T0, T1]


def test_x_37_each_set_of_tasks_has_its_own_round_of_fencing() -> None:
    lab = Lab(EXACTLY)
    lab.read(connector_row("a", PROPS), *tasks_rows("a", TASKS))
    lab.assign(*ALL, leads=True)
    lab.read(fencing_row("a", 2))
    lab.read(*tasks_rows("a", TASKS[:1]))
    effects = lab.assign(CONNECTOR, T0, leads=True)
    assert Fence("a") in effects
    assert starts(effects) == []
    assert lab.herder.on_fencing_failed("a") == [Fence("a")]
    assert starts(lab.read(fencing_row("a", 1))) == [T0]


def test_x_38_a_leader_that_prepares_fences_though_its_own_tasks_do_not_wait() -> None:
    lab = Lab(Rules(leader_fences=True, is_source=lambda props: True))
    lab.read(connector_row("a", PROPS), *tasks_rows("a", TASKS))
    effects = lab.assign(*ALL, leads=True)
    assert starts(effects) == list(ALL)
    assert Fence("a") in effects


def test_sinks_are_not_fenced() -> None:
    lab = Lab(Rules(leader_fences=True, tasks_wait=True))
    lab.read(connector_row("a", PROPS), *tasks_rows("a", TASKS))
    effects = lab.assign(*ALL, leads=True)
    assert starts(effects) == list(ALL)
    assert Fence("a") not in effects


def test_the_leader_makes_a_key_when_there_is_none_or_it_is_old() -> None:
    lab = running(leads=True)
    assert lab.herder.on_time(0, 1000) == [MakeSessionKey()]
    lab.read(session_key_row(SessionKey(b"k", "HmacSHA256", 1000)))
    assert lab.herder.on_time(0, 1000 + lab.rules.key_ttl_ms - 1) == []
    assert lab.herder.on_time(0, 1000 + lab.rules.key_ttl_ms) == [MakeSessionKey()]
    lab.assign(*ALL)
    assert lab.herder.on_time(0, 1 << 50) == []  # Another worker leads.


def test_a_leader_deletes_the_statuses_of_what_is_gone() -> None:
    lab = running()
    assert lab.assign(*ALL, leads=True) == [DropStatuses()]


def test_the_group_is_asked_again_when_the_delay_for_a_lost_worker_ends() -> None:
    lab = running()
    lab.assign(*ALL, delay=5000)
    assert lab.herder.on_time(4999, 0) == []
    assert lab.herder.on_time(5000, 0) == [Rejoin("the delay for a lost worker is over")]
    assert lab.herder.on_time(9000, 0) == []


def test_a_logger_is_set_on_every_worker() -> None:
    assert Lab().read(logger_row("a.b", "DEBUG")) == [SetLogger("a.b", "DEBUG")]


def test_a_report_about_what_does_not_run_here_says_nothing() -> None:
    lab = running()
    lab.herder.on_lost()
    assert lab.herder.on_status(CONNECTOR, State.RUNNING) == []
    assert lab.herder.failed == {}


NAMES = ["a", "b"]
rows = st.one_of(
    st.sampled_from(NAMES).map(lambda name: [connector_row(name, PROPS)]),
    st.tuples(st.sampled_from(NAMES), st.integers(0, 3)).map(
        lambda each: tasks_rows(each[0], [{"n": str(task)} for task in range(each[1])])
    ),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(TargetState)).map(
        lambda each: [target_row(*each)]
    ),
    st.sampled_from(NAMES).map(lambda name: removal_rows(name, 3)),
    st.sampled_from(NAMES).map(lambda name: [fencing_row(name, 1)]),
    st.sampled_from(NAMES).map(
        lambda name: [restart_row(name, include_tasks=True, only_failed=False)]
    ),
)
items = st.sampled_from([TaskId(name, task) for name in NAMES for task in range(-1, 3)])
steps = st.one_of(
    st.tuples(st.just("read"), rows),
    st.tuples(st.just("assign"), st.lists(items, unique=True)),
    st.tuples(st.just("revoke"), st.lists(items, unique=True)),
    st.tuples(st.sampled_from(["lost", "behind", "time"]), st.just([])),
)


@pytest.mark.parametrize("rules", [Rules(), EXACTLY], ids=["plain", "exactly once"])
@given(script=st.lists(steps, max_size=40))
def test_what_runs_follows_from_what_is_held_and_configured(
    rules: Rules, script: list[tuple[str, list[Row] | list[TaskId]]]
) -> None:
    lab = Lab(rules)
    alive: dict[TaskId, Run] = {}
    for what, told in script:
        herder, config = lab.herder, lab.herder.config
        held = [each for each in told if isinstance(each, TaskId)]
        if what == "read":
            effects = lab.read(*[each for each in told if isinstance(each, Row)])
        elif what == "assign":
            gone = [item for item in herder.held if item not in held]
            effects = [*herder.on_revoked(gone), *lab.assign(*held, leads=True)]
        elif what == "revoke":
            effects = herder.on_revoked(held)
        elif what == "lost":
            effects = herder.on_lost()
        elif what == "behind":
            effects = lab.assign(*herder.held, offset=config.offset + 1)
        else:
            effects = herder.on_time(lab.now_ms, 0)
        for effect in effects:
            match effect:
                case StartConnector(name, props, _):
                    assert connector_of(name) not in alive
                    alive[connector_of(name)] = Run(props)
                case StartTask(task, props, task_props, _):
                    assert task not in alive
                    assert config.tasks_offsets[task.connector] <= herder.assignment.config_offset
                    alive[task] = Run(props, task_props)
                case StopTasks(tasks):
                    for task in tasks:
                        del alive[task]
                case StopConnector(name):
                    del alive[connector_of(name)]
                case _:
                    pass
        assert alive == herder.runs
        for item, run in alive.items():
            assert item in herder.held
            if run.task_props is not None:
                assert run.task_props == config.tasks_of(item.connector)[item.task]
            else:
                assert run.connector_props == config.connectors[item.connector]
