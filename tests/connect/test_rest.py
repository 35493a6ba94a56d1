"""Connect's REST API: what each request is answered, and what becomes of bad ones."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from minikafka.connect import library, rest
from minikafka.connect.forwarding import Answer
from minikafka.connect.herding import HerderError, NotLeader
from minikafka.connect.rest import MOST_BODY_BYTES, ROUTES, make_app
from minikafka.connect.rest_config import RestConfig
from minikafka.connect.states import State, Status, TargetState, TaskId
from minikafka.connect.statuses import Statuses

from .rest_support import LINES, SHELF, WORKER, House, Lines, ask

LATE = 0.05


async def test_the_root_tells_the_version_of_kafka_whose_api_it_is() -> None:
    answer = await House().ask("GET", "/")
    assert answer.json() == {
        "version": "4.3.0",
        "commit": "minikafka",
        "kafka_cluster_id": "cluster-1",
    }
    assert answer.headers["content-type"] == "application/json"
    assert (await House().ask("GET", "/health")).json()["status"] == "healthy"


async def test_a_connector_from_its_creation_to_its_end() -> None:
    house = House()
    config = {"connector.class": LINES, "topic": "t", "tasks.max": "2"}
    created = await house.ask("POST", "/connectors", {"name": "a/b", "config": config})
    whole = {**config, "name": "a/b"}
    assert created.status_code == 201
    assert created.headers["location"] == "/connectors/a%2Fb"
    info = {
        "name": "a/b",
        "config": whole,
        "tasks": [{"connector": "a/b", "task": 0}, {"connector": "a/b", "task": 1}],
        "type": "source",
    }
    assert created.json() == info
    one = "/connectors/a%2Fb"
    assert (await house.ask("GET", "/connectors/")).json() == ["a/b"]
    assert (await house.ask("GET", one)).json() == info
    assert (await house.ask("GET", f"{one}/config")).json() == whole
    status: dict[str, Any] = {
        "name": "a/b",
        "connector": {"state": "RUNNING", "worker_id": WORKER},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": WORKER},
            {"id": 1, "state": "RUNNING", "worker_id": WORKER},
        ],
        "type": "source",
    }
    assert (await house.ask("GET", f"{one}/status")).json() == status
    both = await house.ask("GET", "/connectors?expand=info&expand=status&expand=else")
    assert both.json() == {"a/b": {"info": info, "status": status}}
    assert (await house.ask("GET", f"{one}/tasks")).json()[1] == {
        "id": {"connector": "a/b", "task": 1},
        "config": {**whole, "part": "1"},
    }
    assert list((await house.ask("GET", f"{one}/tasks-config")).json()) == ["a/b-0", "a/b-1"]
    assert (await house.ask("GET", f"{one}/tasks/1/status")).json() == status["tasks"][1]
    house.statuses.on_topic(TaskId("a/b", 0), "t")
    assert (await house.ask("GET", f"{one}/topics")).json() == {"a/b": {"topics": ["t"]}}
    assert (await house.ask("PUT", f"{one}/topics/reset")).status_code == 202
    assert (await house.ask("GET", f"{one}/topics")).json() == {"a/b": {"topics": []}}
    for verb, code, states in (
        ("pause", 202, ["PAUSED"] * 3),
        ("resume", 202, ["RUNNING"] * 3),
        ("stop", 204, ["STOPPED"]),
        ("stop", 204, ["STOPPED"]),
        ("resume", 202, ["RUNNING"] * 3),
    ):
        assert (await house.ask("PUT", f"{one}/{verb}")).status_code == code
        assert await house.states("a%2Fb") == states
    assert (await house.ask("DELETE", one)).status_code == 204
    for path in (one, f"{one}/status", f"{one}/topics", f"{one}/offsets", f"{one}/tasks"):
        assert (await house.ask("GET", path)).status_code == 404


async def test_x_15_a_connector_created_stopped_runs_no_task_before_it_is_resumed() -> None:
    house = House()
    config = {"connector.class": LINES, "topic": "t"}
    body = {"name": "c", "config": config, "initial_state": "stopped"}
    assert (await house.ask("POST", "/connectors", body)).status_code == 201
    assert await house.states("c") == ["STOPPED"]
    there = [{"partition": {"filename": "f"}, "offset": {"position": 7}}]
    altered = await house.ask("PATCH", "/connectors/c/offsets", {"offsets": there})
    assert altered.json() == {
        "message": "The offsets for this connector have been altered successfully"
    }
    assert house.worker.done == []
    assert (await house.ask("PUT", "/connectors/c/resume")).status_code == 202
    assert await house.states("c") == ["RUNNING", "RUNNING"]
    assert house.worker.began == {"c-0": there}


async def test_x_16_an_equal_configuration_restarts_nothing() -> None:
    house = House()
    config = {"connector.class": LINES, "topic": "t", "name": "c"}
    first = await house.ask("PUT", "/connectors/c/config", config)
    assert (first.status_code, first.headers["location"]) == (201, "/connectors/c")
    before = list(house.worker.done)
    second = await house.ask("PUT", "/connectors/c/config", config)
    assert (second.status_code, second.json()) == (200, first.json())
    assert house.worker.done == before
    other = await house.ask("PUT", "/connectors/c/config", {**config, "topic": "u"})
    assert (other.status_code, other.json()["config"]["topic"]) == (200, "u")
    assert house.worker.done[len(before) :] == [
        "stop c", "stop c-0", "start c STARTED", "start c-0"
    ]  # fmt: skip


async def test_x_17_a_null_in_a_patch_removes_the_key() -> None:
    house = House()
    await house.create("c", file="f", batch_size="5")
    patch = {"file": None, "batch.size": 7}
    patched = await house.ask("PATCH", "/connectors/c/config", patch)
    assert patched.status_code == 200
    wanted = {"connector.class": LINES, "topic": "t", "batch.size": "7", "name": "c"}
    assert patched.json()["config"] == wanted
    assert (await house.ask("GET", "/connectors/c/config")).json() == wanted
    for wrong in ({"topic": None}, {"name": "d"}, {"batch.size": "many"}):
        assert (await house.ask("PATCH", "/connectors/c/config", wrong)).status_code == 400
    assert (await house.ask("PATCH", "/connectors/x/config", {"a": "b"})).status_code == 404


class Follower(House):
    """A worker that sends changes to a leader, which changes."""

    def __init__(self, leader: str | None) -> None:
        super().__init__()
        self.leader, self.sent = leader, list[tuple[str, str, Mapping[str, str], bytes]]()
        self.peers: dict[str, House] = {}
        self.app = make_app(self.herder, forward=self._send)
        self.herder.set_target = self._refuse  # type: ignore[method-assign]

    async def _refuse(self, name: str, target: TargetState) -> None:
        raise NotLeader(self.leader)

    async def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.sent.append((method, url, headers, body))
        host, _, path = url.removeprefix("http://").partition("/")
        if host not in self.peers:
            raise HerderError("IO Error trying to forward REST request: ClientConnectorError")
        found = await ask(self.peers[host].app, method, f"/{path}", headers=headers, content=body)
        return Answer(found.status_code, found.headers, found.content)


async def test_x_18_a_follower_asks_the_leader_once_and_while_it_changes_answers_409() -> None:
    leader, follower, other = House(), Follower(None), Follower("http://leader:8083/")
    await leader.create("c")
    no_leader = await follower.ask("PUT", "/connectors/c/pause")
    assert (no_leader.status_code, no_leader.json()["error_code"]) == (409, 409)
    # The follower believes that `other` leads, which knows better: the second hop is refused.
    follower.leader, follower.peers = "http://other:8083", {"other:8083": other}
    late = await follower.ask("PUT", "/connectors/c/pause")
    assert late.status_code == 409
    assert "conflicting operation (e.g. worker rebalance)" in late.json()["message"]
    assert other.sent == []
    follower.leader, follower.peers = "http://leader:8083", {"leader:8083": leader}
    signed = {"Authorization": "Basic x", "Cookie": "private"}
    again = await follower.ask("PUT", "/connectors/c/pause?a=b%20c", headers=signed)
    assert again.status_code == 202
    assert await leader.states("c") == ["PAUSED", "PAUSED"]
    method, url, headers, body = follower.sent[-1]
    assert (method, body) == ("PUT", b"")
    assert url == "http://leader:8083/connectors/c/pause?a=b+c&forward=false"
    assert headers == {"authorization": "Basic x"}
    follower.leader = "http://nobody:8083"
    assert (await follower.ask("PUT", "/connectors/c/pause")).status_code == 500


async def test_x_20_a_restart_of_what_failed_restarts_only_that_and_tells_its_plan() -> None:
    house = House()
    await house.create("c", tasks_max="3")
    house.worker.fail(TaskId("c", 1))
    before = len(house.worker.done)
    plan = await house.ask("POST", "/connectors/c/restart?includeTasks=true&onlyFailed=true")
    assert plan.status_code == 202
    assert [task["state"] for task in plan.json()["tasks"]] == ["RUNNING", "RESTARTING", "RUNNING"]
    assert plan.json()["connector"]["state"] == "RUNNING"
    assert house.worker.done[before:] == ["stop c-1", "start c-1"]
    assert await house.states("c") == ["RUNNING"] * 4

    before = len(house.worker.done)
    whole = await house.ask("POST", "/connectors/c/restart?includeTasks=TRUE")
    assert [each["state"] for each in whole.json()["tasks"]] == ["RESTARTING"] * 3
    assert house.worker.done[before:] == [
        "stop c-0", "stop c-1", "stop c-2", "stop c",
        "start c-0", "start c-1", "start c-2", "start c STARTED",
    ]  # fmt: skip

    before = len(house.worker.done)
    alone = await house.ask("POST", "/connectors/c/restart")
    assert (alone.status_code, alone.content) == (204, b"")
    assert house.worker.done[before:] == ["stop c", "start c STARTED"]
    task = await house.ask("POST", "/connectors/c/tasks/2/restart")
    assert (task.status_code, house.worker.done[-2:]) == (204, ["stop c-2", "start c-2"])
    assert (await house.ask("POST", "/connectors/c/tasks/3/restart")).status_code == 404
    assert (await house.ask("POST", "/connectors/x/restart")).status_code == 404


async def test_x_21_offsets_change_only_while_stopped_and_a_second_reset_is_like_the_first() -> (
    None
):
    house = House()
    await house.create("c")
    new = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 3}}]}
    for method, body in (("PATCH", new), ("DELETE", None)):
        refused = await house.ask(method, "/connectors/c/offsets", body)
        assert refused.status_code == 400
        assert refused.json()["message"] == (
            "Connectors must be in the STOPPED state before their offsets can be modified. This "
            "can be done for the specified connector by issuing a 'PUT' request to the "
            "'/connectors/c/stop' endpoint"
        )
    assert (await house.ask("PUT", "/connectors/c/pause")).status_code == 202
    assert (await house.ask("DELETE", "/connectors/c/offsets")).status_code == 400
    await house.ask("PUT", "/connectors/c/stop")
    assert (await house.ask("PATCH", "/connectors/c/offsets", new)).status_code == 200
    assert (await house.ask("GET", "/connectors/c/offsets")).json() == new
    for _ in range(2):
        assert (await house.ask("DELETE", "/connectors/c/offsets")).json() == {
            "message": "The offsets for this connector have been reset successfully"
        }
        assert (await house.ask("GET", "/connectors/c/offsets")).json() == {"offsets": []}
    bad: tuple[Any, ...] = (
        {},
        {"offsets": []},
        {"offsets": [1]},
        {"offsets": [{"partition": 1, "offset": None}]},
        {"offsets": [{"partition": {}, "offset": "x"}]},
    )
    for wrong in bad:
        assert (await house.ask("PATCH", "/connectors/c/offsets", wrong)).status_code == 400
    await house.ask("PATCH", "/connectors/c/offsets", new)
    await house.ask("PUT", "/connectors/c/resume")
    assert house.worker.began["c-0"] == new["offsets"]


async def test_x_24_a_deleted_sink_leaves_its_group_and_its_topics() -> None:
    house = House()
    await house.create("s", connector_class=SHELF, topics="t")
    group = [
        {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": 9}}
    ]
    house.worker.positions["s"] = group
    assert (await house.ask("DELETE", "/connectors/s")).status_code == 204
    assert (await house.ask("GET", "/connectors/s/status")).status_code == 404
    assert house.worker.positions == {"s": group}
    assert house.worker.done[-2:] == ["stop s-0", "stop s"]
    await house.create("s", connector_class=SHELF, topics="t")
    assert house.worker.began["s-0"] == group


async def test_exactly_once_fences_the_old_tasks_before_new_ones_start() -> None:
    house = House(exactly_once=True)
    await house.create("c", tasks_max="3")
    await house.ask("PATCH", "/connectors/c/config", {"tasks.max": "1"})
    started = [each for each in house.worker.done if each.startswith(("fence", "start c-"))]
    assert started == ["fence c 3", "start c-0", "start c-1", "start c-2", "fence c 3", "start c-0"]


async def test_a_connector_that_cannot_plan_its_tasks_has_failed_until_it_is_restarted() -> None:
    house = House()
    make = house.worker.make_task_configs

    async def fail(name: str) -> list[dict[str, str]]:
        raise ValueError("s3cret is wrong")

    house.worker.make_task_configs = fail  # type: ignore[method-assign]
    await house.create("c")
    status = (await house.ask("GET", "/connectors/c/status")).json()
    assert (status["connector"]["state"], status["tasks"]) == ("FAILED", [])
    assert "ValueError: [hidden] is wrong" in status["connector"]["trace"]
    house.worker.make_task_configs = make  # type: ignore[method-assign]
    again = await house.ask("POST", "/connectors/c/restart?onlyFailed=true")
    assert (again.status_code, again.json()["connector"]["state"]) == (202, "RESTARTING")
    assert await house.states("c") == ["RUNNING", "RUNNING"]


async def test_a_connector_that_asks_for_other_tasks_gets_them() -> None:
    house = House()
    await house.create("c", tasks_max="2")
    before = len(house.worker.done)
    house.statuses.on_reconfiguration("c")
    await house.ask("PUT", "/connectors/c/resume")  # it waits for its turn
    assert house.worker.done[before:] == ["STARTED c"]

    async def fewer(name: str) -> list[dict[str, str]]:
        return [{"part": "all"}]

    house.worker.make_task_configs = fewer  # type: ignore[method-assign]
    house.statuses.on_reconfiguration("c")
    await house.ask("PUT", "/connectors/c/resume")
    assert house.worker.done[before:] == [
        "STARTED c", "stop c-0", "stop c-1", "start c-0", "STARTED c"
    ]  # fmt: skip
    house.statuses.on_reconfiguration("unknown")
    assert await house.states("c") == ["RUNNING", "RUNNING"]


def test_a_report_of_an_earlier_start_does_not_count() -> None:
    statuses, task = Statuses(), TaskId("c", 0)
    statuses.on_connector("c", Status(State.RUNNING, WORKER, 1))
    assert statuses.state("c") is State.UNASSIGNED  # nobody expects it
    statuses.expect("c", 5)
    statuses.on_task(task, Status(State.FAILED, WORKER, 4))
    assert statuses.tasks("c") == []
    statuses.on_task(task, Status(State.RUNNING, WORKER, 6))
    statuses.on_task(task, Status(State.FAILED, WORKER, 5))
    assert statuses.task(task).state is State.RUNNING
    statuses.forget("c")
    statuses.on_task(task, Status(State.FAILED, WORKER, 9))
    statuses.on_topic(task, "t")
    assert (statuses.tasks("c"), statuses.topics("c")) == ([], [])


BAD: list[tuple[str, str, dict[str, Any], int]] = [
    ("GET", "/nowhere", {}, 404),
    ("GET", "/connectors/c/tasks/one/status", {}, 404),
    ("DELETE", "/connectors", {}, 405),
    ("POST", "/connectors", {"content": b"{"}, 415),
    ("POST", "/connectors", {"data": {"a": "b"}}, 415),
    ("POST", "/connectors/c/restart", {"headers": {"content-type": "text/plain"}}, 415),
    ("POST", "/connectors", {"content": b"x" * (MOST_BODY_BYTES + 1)}, 413),
    ("POST", "/connectors", {"json": []}, 400),
    ("POST", "/connectors", {"json": {"config": {}}}, 400),
    ("POST", "/connectors", {"json": {"name": "c"}}, 400),
    ("POST", "/connectors", {"json": {"name": "c", "config": {"name": "d"}}}, 400),
    ("POST", "/connectors", {"json": {"name": "c", "config": {"a": {}}}}, 400),
    ("POST", "/connectors", {"json": {"name": "c", "config": {"a": None}}}, 400),
    ("POST", "/connectors", {"json": {"name": "c", "config": {}, "initial_state": "X"}}, 400),
    ("POST", "/connectors", {"json": {"name": "c", "config": {"connector.class": "X"}}}, 400),
    ("PUT", "/connectors/c/config", {"json": {"connector.class": LINES, "name": "c"}}, 400),
    ("POST", "/connectors/c/tasks", {"json": {}}, 400),
    ("POST", "/connectors/c/tasks", {"json": [{}]}, 400),
    ("POST", "/connectors/c/tasks", {"json": [{"a": "x" * MOST_BODY_BYTES}]}, 400),
    ("PUT", "/connectors/c/fence", {}, 400),
    ("PUT", "/connector-plugins/X/config/validate", {"json": {"connector.class": LINES}}, 400),
    ("GET", "/connector-plugins/Unknown/config", {}, 404),
    ("GET", "/admin/loggers/no.such", {}, 404),
    ("PUT", "/admin/loggers/minikafka", {"json": {}}, 400),
    ("PUT", "/admin/loggers/minikafka", {"json": {"level": "LOUD"}}, 404),
    *[("PUT", f"/connectors/c/{verb}", {}, 404) for verb in ("pause", "resume", "stop")],
]


@pytest.mark.parametrize(("method", "path", "more", "code"), BAD)
async def test_a_bad_request_is_answered_with_its_code_and_why(
    method: str, path: str, more: dict[str, Any], code: int
) -> None:
    house = House()
    answer = await house.ask(method, path, **more)
    assert answer.status_code == code
    assert answer.json()["error_code"] == code
    assert answer.json()["message"]
    assert house.worker.done == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": NaN}', b'{"a": "\\ud800"}', b'{"\\ud800": ""}',
     b'{"a": ' + b"9" * 5_000 + b"}"],
)  # fmt: skip
async def test_bytes_that_are_no_good_json_are_refused(body: bytes) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    answer = await House().ask("PUT", "/connectors/c/config", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error_code"]) == (400, 400)


async def test_a_body_is_cut_off_once_it_is_too_long() -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 65_536

    json_type = {"content-type": "application/json"}
    answer = await House().ask("POST", "/connectors", content=endless(), headers=json_type)
    assert answer.status_code == 413
    assert sent * 65_536 < MOST_BODY_BYTES + 5 * 65_536


async def test_connectors_that_hang_in_validation_take_threads_from_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "VALIDATE_S", LATE)
    monkeypatch.setattr(library, "MOST_LOOKS", 2)
    house, go_on = House(), threading.Event()
    monkeypatch.setattr(Lines, "validate", lambda self, props: go_on.wait() and [])
    path, config = f"/connector-plugins/{LINES}/config/validate", {"connector.class": LINES}
    late, again, refused = [await house.ask("PUT", path, config) for _ in range(3)]
    assert "took longer than" in late.json()["message"]
    assert [each.status_code for each in (late, again, refused)] == [500, 500, 503]
    go_on.set()
    statuses = []
    for _ in range(500):
        await asyncio.sleep(0.01)
        statuses.append((await house.ask("PUT", path, config)).status_code)
        if statuses[-1] == 200:
            break
    assert statuses[-1] == 200


async def test_all_errors_of_a_configuration_are_in_one_message() -> None:
    config = {"connector.class": LINES, "tasks.max": "0", "mode": "odd"}
    answer = await House().ask("POST", "/connectors", {"name": "c", "config": config})
    assert answer.status_code == 400
    lines = answer.json()["message"].splitlines()
    assert lines[0] == "Connector configuration is invalid and contains the following 3 error(s):"
    assert [line.partition(":")[0] for line in lines[1:4]] == [
        "Invalid value 0 for configuration tasks.max",
        'Missing required configuration "topic" which has no default value.',
        "Invalid value odd for configuration mode",
    ]
    assert (await House().ask("GET", "/connectors")).json() == []


async def test_a_second_connector_of_a_name_is_a_conflict() -> None:
    house = House()
    await house.create("c")
    body = {"name": "c", "config": {"connector.class": LINES, "topic": "t"}}
    answer = await house.ask("POST", "/connectors", body)
    assert answer.json() == {"error_code": 409, "message": "Connector c already exists"}


async def test_head_and_options_are_answered_on_every_path() -> None:
    house = House()
    assert (await house.ask("HEAD", "/connectors")).status_code == 200
    for path, methods in ROUTES.items():
        filled = path.replace("{task:int}", "0").replace("{", "").replace("}", "")
        answer = await house.ask("OPTIONS", filled)
        assert (answer.status_code, answer.headers["allow"]) == (200, ", ".join(methods))
    wrong = await house.ask("PATCH", "/connectors")
    assert wrong.status_code == 405
    assert {"GET", "POST"} <= {each.strip() for each in wrong.headers["allow"].split(",")}


async def test_only_the_configured_origins_may_use_the_api_from_a_browser() -> None:
    house = House()
    asked = {"Origin": "https://ui.example", "Access-Control-Request-Method": "PUT"}
    assert (
        "access-control-allow-origin"
        not in (await house.ask("GET", "/connectors", headers=asked)).headers
    )
    config = RestConfig(allow_origin=("https://ui.example",), allow_methods=("GET", "PUT"))
    house.app = make_app(house.herder, config)
    preflight = await house.ask("OPTIONS", "/connectors", headers=asked)
    assert preflight.headers["access-control-allow-origin"] == "https://ui.example"
    assert "PUT" in preflight.headers["access-control-allow-methods"]
    other = await house.ask("OPTIONS", "/connectors", headers={**asked, "Origin": "https://x"})
    assert (other.status_code, "access-control-allow-origin" in other.headers) == (400, False)


async def test_topics_are_not_told_or_reset_where_that_is_switched_off() -> None:
    house = House()
    await house.create("c")
    house.app = make_app(house.herder, RestConfig(topic_tracking=False))
    for method, path in (("GET", "topics"), ("PUT", "topics/reset")):
        answer = await house.ask(method, f"/connectors/c/{path}")
        assert answer.json() == {"error_code": 403, "message": "Topic tracking is disabled."}
    house.app = make_app(house.herder, RestConfig(topic_tracking_reset=False))
    assert (await house.ask("GET", "/connectors/c/topics")).status_code == 200
    assert (await house.ask("PUT", "/connectors/c/topics/reset")).status_code == 403


async def test_admin_paths_stand_only_where_they_are_configured() -> None:
    herder = House().herder
    main, admin = make_app(herder, admin=False), make_app(herder, main=False)
    codes = [
        (await ask(app, "GET", path)).status_code
        for app in (main, admin)
        for path in ("/connectors", "/admin/loggers")
    ]
    assert codes == [200, 404, 404, 200]


async def test_levels_of_loggers_are_read_and_set() -> None:
    house = House()
    path = "/admin/loggers/minikafka.connect.tests"
    assert (await house.ask("PUT", path, {"level": "debug"})).json() == ["minikafka.connect.tests"]
    told = (await house.ask("GET", path)).json()
    assert told["level"] == "DEBUG"
    assert told["last_modified"] > 0
    below = await house.ask("PUT", "/admin/loggers/minikafka.connect.t", {"level": "ERROR"})
    assert below.json() == ["minikafka.connect.t"]
    everywhere = await house.ask("PUT", f"{path}?scope=cluster", {"level": "INFO"})
    assert (everywhere.status_code, everywhere.content) == (204, b"")
    listed = (await house.ask("GET", "/admin/loggers")).json()
    assert listed["minikafka.connect.tests"]["level"] == "INFO"
    assert listed["root"].keys() == {"level", "last_modified"}


async def test_a_request_that_takes_too_long_is_given_up_and_its_change_is_carried_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    house, go = House(), asyncio.Event()
    start = house.worker.start_connector

    async def slow(*args: Any) -> None:
        await go.wait()
        await start(*args)

    house.worker.start_connector = slow  # type: ignore[method-assign, assignment]
    monkeypatch.setattr(rest, "REQUEST_TIMEOUT_MS", LATE * 1000)
    body = {"name": "c", "config": {"connector.class": LINES, "topic": "t"}}
    answer = await house.ask("POST", "/connectors", body)
    assert answer.json() == {"error_code": 500, "message": "Request timed out"}
    go.set()
    monkeypatch.undo()
    await house.ask("PUT", "/connectors/c/resume")  # it waits for its turn
    assert await house.states("c") == ["RUNNING", "RUNNING"]


async def test_an_error_of_the_herder_tells_its_kind_and_not_its_text() -> None:
    house = House()

    async def broken() -> list[str]:
        raise RuntimeError("password=s3cret")

    house.herder.connectors = broken  # type: ignore[method-assign]
    answer = await house.ask("GET", "/connectors")
    assert answer.status_code == 500
    assert answer.json()["message"] == (
        "The worker failed with RuntimeError: its log has the traceback"
    )


async def test_a_reader_that_goes_away_ends_its_request() -> None:
    house = House()
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/connectors", "raw_path": b"/connectors",
        "headers": [], "query_string": b"",
    }  # fmt: skip
    await house.app(scope, receive, send)
    assert sent[0]["status"] == 400


def test_httpx_keeps_encoded_paths() -> None:
    assert httpx.URL("http://w/connectors/a%2Fb").raw_path == b"/connectors/a%2Fb"
