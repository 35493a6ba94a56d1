"""Requests of user interfaces for Connect, replayed: the answers have what each of them parses.

Kafbat: contract/src/main/resources/swagger/kafka-connect-api.yaml of kafbat/kafka-ui. Redpanda
Console: cloudhut/connect-client. AKHQ: ConnectRepository of tchiotludo/akhq, which uses
SourceLabOrg/kafka-connect-client. kcctl: KafkaConnectApi of kcctl/kcctl.
"""

from typing import Any, NamedTuple

import pytest

from minikafka.connect.states import TaskId

from .rest_support import LINES, House

Shape = Any
"""A type, a tuple of the values that an enumeration has, [shape of items], {key: shape}, or {str:
shape of values}. A key that ends in `?` may be absent or null."""


class Step(NamedTuple):
    """One request, and what its answer must be."""

    method: str
    path: str
    code: int
    shape: Shape = None
    body: Any = None


def misfit(value: Any, shape: Shape, where: str = "$") -> str | None:
    """Return where a value does not have the shape; None if it has."""
    if isinstance(shape, tuple):
        return None if value in shape else f"{where}: {value!r} is none of {shape}"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where}: no list"
        found = (misfit(each, shape[0], f"{where}[{i}]") for i, each in enumerate(value))
        return next((each for each in found if each), None)
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{where}: no object"
        if str in shape:
            pairs = [(key, each, shape[str]) for key, each in value.items()]
        else:
            missing = [key for key in shape if not key.endswith("?") and key not in value]
            if missing:
                return f"{where}: has no {missing[0]}"
            plain = {key.removesuffix("?"): (key, each) for key, each in shape.items()}
            pairs = [
                (key, value[key], each)
                for key, (declared, each) in plain.items()
                if key in value and not (declared.endswith("?") and value[key] is None)
            ]
        inner = (misfit(each, wanted, f"{where}.{key}") for key, each, wanted in pairs)
        return next((each for each in inner if each), None)
    is_number = isinstance(value, bool) and shape is int
    return None if isinstance(value, shape) and not is_number else f"{where}: no {shape.__name__}"


NEW = {"name": "ui", "config": {"connector.class": LINES, "topic": "t", "tasks.max": 2}}
CONFIG: dict[str, Any] = {**NEW["config"], "batch.size": 100}  # type: ignore[dict-item]
INFO = {
    "name": str,
    "config": {str: str},
    "tasks": [{"connector": str, "task": int}],
    "type": ("source", "sink"),
}
STATES = ("RUNNING", "FAILED", "PAUSED", "UNASSIGNED", "RESTARTING", "STOPPED")
TASK = {"id": int, "state": STATES, "worker_id": str, "trace?": str}
STATUS = {
    "name": str,
    "connector": {"state": STATES, "worker_id": str, "trace?": str},
    "tasks": [TASK],
    "type": str,
}
DEFINITION = {
    "name": str,
    "type": ("BOOLEAN", "CLASS", "DOUBLE", "INT", "LIST", "LONG", "PASSWORD", "SHORT", "STRING"),
    "required": bool,
    "default_value?": str,
    "importance": ("LOW", "MEDIUM", "HIGH"),
    "documentation": str,
    "group?": str,
    "width": ("SHORT", "MEDIUM", "LONG", "NONE"),
    "display_name": str,
    "dependents": [str],
    "order": int,
}
VALUE = {
    "name": str,
    "value?": str,
    "recommended_values": [str],
    "errors": [str],
    "visible": bool,
}
VALIDATION = {
    "name": str,
    "error_count": int,
    "groups": [str],
    "configs": [{"definition": DEFINITION, "value": VALUE}],
}
PLUGINS = [{"class": str, "type": str, "version": str}]
CREATE = Step("POST", "/connectors", 201, INFO, NEW)
UPDATE = Step("PUT", "/connectors/ui/config", 200, INFO, CONFIG)
VALIDATE = Step("PUT", f"/connector-plugins/{LINES}/config/validate", 200, VALIDATION, CONFIG)

KAFBAT = [
    CREATE,
    Step("GET", "/connectors", 200, [str]),
    Step("GET", "/connectors?expand=status&expand=info", 200, {str: {"info": INFO}}),
    Step("GET", "/connectors/ui", 200, INFO),
    Step("GET", "/connectors/ui/config", 200, {str: str}),
    Step("GET", "/connectors/ui/status", 200, STATUS),
    Step("GET", "/connectors/ui/topics", 200, {str: {"topics": [str]}}),
    Step("GET", "/connectors/ui/tasks", 200, [{"id": {"connector": str, "task": int}}]),
    Step("GET", "/connectors/ui/tasks/1/status", 200, TASK),
    Step("POST", "/connectors/ui/tasks/1/restart", 204),
    Step("GET", "/connector-plugins", 200, PLUGINS),
    VALIDATE,
    UPDATE,
    Step("POST", "/connectors/ui/restart?includeTasks=true&onlyFailed=false", 202, STATUS),
    Step("POST", "/connectors/ui/restart?includeTasks=false&onlyFailed=false", 204),
    Step("PUT", "/connectors/ui/pause", 202),
    Step("PUT", "/connectors/ui/resume", 202),
    Step("PUT", "/connectors/ui/stop", 204),
    Step("DELETE", "/connectors/ui/offsets", 200, {"message": str}),
    Step("DELETE", "/connectors/ui", 204),
]
REDPANDA = [
    Step("GET", "/", 200, {"version": str, "commit": str, "kafka_cluster_id": str}),
    CREATE,
    Step(
        "GET", "/connectors?expand=info&expand=status", 200, {str: {"info": INFO, "status": STATUS}}
    ),
    Step("GET", "/connector-plugins", 200, PLUGINS),
    VALIDATE,
    UPDATE,
    Step("POST", "/connectors/ui/restart?includeTasks=true&onlyFailed=true", 202, STATUS),
    Step("PUT", "/connectors/ui/stop", 204),
    Step("GET", "/connectors/ui/topics", 200, {str: {"topics": [str]}}),
    Step("PUT", "/connectors/ui/topics/reset", 202),
    Step("DELETE", "/connectors/ui", 204),
    Step("GET", "/connectors/ui", 404, {"error_code": int, "message": str}),
]
AKHQ = [
    Step("POST", "/connectors", 201, INFO, NEW),
    Step("POST", "/connectors", 409, {"error_code": int, "message": str}, NEW),
    Step("GET", "/connectors", 200, [str]),
    Step("GET", "/connectors/ui", 200, INFO),
    Step("GET", "/connectors/ui/status", 200, STATUS),
    UPDATE,
    Step("PUT", "/connectors/ui/config", 400, {"error_code": int, "message": str}, {"a": "b"}),
    Step("PUT", "/connectors/ui/pause", 202),
    Step("PUT", "/connectors/ui/resume", 202),
    Step("POST", "/connectors/ui/restart", 204),
    Step("POST", "/connectors/ui/tasks/0/restart", 204),
    Step("DELETE", "/connectors/ui", 204),
]
KCCTL = [
    Step("POST", "/connectors/", 201, INFO, NEW),
    Step("GET", "/connectors/", 200, [str]),
    Step("GET", "/connector-plugins?connectorsOnly=false", 200, PLUGINS),
    Step("GET", f"/connector-plugins/{LINES}/config", 200, [DEFINITION]),
    Step("GET", "/admin/loggers/", 200, {str: {"level": str}}),
    Step("PUT", "/admin/loggers/minikafka.ui", 200, [str], {"level": "DEBUG"}),
    Step("PATCH", "/connectors/ui/config", 200, INFO, {"batch.size": "1"}),
    Step("PUT", "/connectors/ui/stop", 204),
    Step("GET", "/connectors/ui/offsets", 200, {"offsets": [{"partition": {str: object}}]}),
]


@pytest.mark.parametrize(
    "steps", [KAFBAT, REDPANDA, AKHQ, KCCTL], ids=["kafbat", "redpanda", "akhq", "kcctl"]
)
async def test_x_22_requests_of_user_interfaces_get_answers_that_they_can_parse(
    steps: list[Step],
) -> None:
    house = House()
    for step in steps:
        answer = await house.ask(step.method, step.path, step.body)
        assert answer.status_code == step.code, (step, answer.text)
        if step.shape is None:
            assert answer.content == b""
        else:
            assert misfit(answer.json(), step.shape) is None, step
            assert answer.headers["content-type"] == "application/json"


async def test_x_22_akhq_may_validate_every_plugin_that_is_listed() -> None:
    house = House()
    listed = (await house.ask("GET", "/connector-plugins")).json()
    assert len(listed) > 10
    for plugin in listed:
        name = plugin["class"]
        body = {"connector.class": name, "topics": "getPlugins"}
        answer = await house.ask("PUT", f"/connector-plugins/{name}/config/validate", body)
        assert answer.status_code == 200, answer.text
        assert misfit(answer.json(), VALIDATION) is None
        assert answer.json()["error_count"] > 0  # it has no name


async def test_x_22_a_failed_task_tells_its_trace_and_is_counted_by_its_state() -> None:
    house = House()
    await house.create("ui")
    house.worker.fail(TaskId("ui", 0), "Traceback: away")
    status = (await house.ask("GET", "/connectors/ui/status")).json()
    assert misfit(status, STATUS) is None
    assert status["tasks"][0]["trace"] == "Traceback: away"


def test_a_misfit_would_be_seen() -> None:
    assert misfit({"a": [1, "x"]}, {"a": [int]}) == "$.a[1]: no int"
    assert misfit({"a": None}, {"a?": int, "b?": str}) is None
    assert misfit({"a": None}, {"a": int}) == "$.a: no int"
    assert misfit({}, {"a": int}) == "$: has no a"
    assert misfit({"x": "y"}, {str: ("z",)}) == "$.x: 'y' is none of ('z',)"
