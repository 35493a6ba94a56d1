"""`minikafka connect` against a REST API on a socket, with a fake worker behind it."""

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from minikafka.connect.cli.api import ConnectApi, Refused
from minikafka.connect.rest_config import Listener, RestConfig
from minikafka.connect.rest_server import RestServer
from minikafka.connect.states import TaskId
from minikafka.deploy.cli import main
from minikafka.runtime.runtime import SystemRuntime

from .rest_support import ILL, LINES, House
from .test_java_offsets import WRITTEN


class Served(NamedTuple):
    """A worker whose API is on a socket."""

    house: House
    url: str
    call: Callable[..., None]
    """Calls a function on the loop of the worker."""


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    loop, thread = asyncio.new_event_loop(), None

    async def start() -> tuple[House, RestServer]:
        house = House()
        config = RestConfig(
            listeners=(Listener("http", "127.0.0.1", 0),),
            advertised=Listener("http", "127.0.0.1", 0),
        )
        server = RestServer(SystemRuntime("connect"), config, {})
        server.start(house.herder)
        return house, server

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    house, server = asyncio.run_coroutine_threadsafe(start(), loop).result(30)

    def call(function: Callable[..., None], *args: object) -> None:
        async def run() -> None:
            function(*args)

        asyncio.run_coroutine_threadsafe(run(), loop).result(30)

    monkeypatch.setenv("MINIKAFKA_CONNECT_URL", server.url)
    yield Served(house, server.url, call)
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(30)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["minikafka", "connect", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return code, shown.out, shown.err

    return run


Run = Callable[..., tuple[int, str, str]]


def write(folder: Path, name: str, config: dict[str, str], **more: str) -> Path:
    path = folder / f"{name}.json"
    whole = {"connector.class": LINES, "topic": "t", **config}
    path.write_text(json.dumps({"name": name, "config": whole, **more}))
    return path


def test_a_connector_is_created_watched_changed_and_deleted(
    served: Served, run: Run, tmp_path: Path
) -> None:
    file = write(tmp_path, "orders", {"tasks.max": "2"})
    assert run("create", str(file)) == (0, "created orders\n", "")
    assert run("create", str(file)) == (1, "", "minikafka: Connector orders already exists\n")
    code, out, _ = run("list")
    assert (code, out.splitlines()[0].split()) == (
        0,
        ["NAME", "TYPE", "STATE", "RUNNING", "WORKER", "CLASS"],
    )
    assert out.splitlines()[1].split() == [
        "orders", "source", "RUNNING", "2/2", "worker:8083", LINES
    ]  # fmt: skip
    assert json.loads(run("list", "--json")[1])["orders"]["info"]["type"] == "source"
    assert run("status", "orders")[0] == 0
    served.call(served.house.worker.fail, TaskId("orders", 1), "Traceback: away")
    code, out, _ = run("status", "orders")
    assert (code, "Traceback: away" in out) == (1, True)
    assert run("status", "orders", "--json")[0] == 1
    failed = run("restart", "orders", "--tasks", "--only-failed")
    assert failed == (0, "restarting orders-1\n", "")
    assert run("restart", "orders") == (0, "restarting orders\n", "")
    assert run("restart", "orders", "--task", "0") == (0, "restarting orders-0\n", "")
    assert run("update", "orders", "--set", "topic=u", "--unset", "tasks.max")[0] == 0
    assert run("config", "orders")[1] == f"connector.class={LINES}\nname=orders\ntopic=u\n"
    assert run("update", "orders", str(file))[0] == 0
    assert json.loads(run("config", "orders", "--json")[1])["tasks.max"] == "2"
    assert run("pause", "orders") == (0, "pausing orders\n", "")
    assert run("resume", "orders")[0] == 0
    assert run("offsets", "reset", "orders")[0] == 1
    assert run("stop", "orders")[0] == 0
    there = tmp_path / "there.json"
    there.write_text('{"offsets": [{"partition": {"f": "a"}, "offset": {"position": 3}}]}')
    assert "altered successfully" in run("offsets", "set", "orders", str(there))[1]
    assert json.loads(run("offsets", "show", "orders")[1]) == json.loads(there.read_text())
    assert "reset successfully" in run("offsets", "reset", "orders")[1]
    assert run("delete", "orders") == (0, "deleted orders\n", "")
    assert run("status", "orders") == (1, "", "minikafka: Connector orders not found\n")


def test_the_offsets_of_kafka_s_standalone_worker_are_taken_over(
    served: Served, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "connect.offsets"
    file.write_bytes(WRITTEN)
    assert run("create", str(write(tmp_path, "lines", {})), "--state", "stopped")[0] == 0
    done = run("offsets", "import", str(file), "lines")
    assert done == (0, "set 2 offsets of lines\n", "")
    shown = json.loads(run("offsets", "show", "lines")[1])
    assert shown["offsets"][0] == {"partition": {"filename": "a.txt"}, "offset": {"position": 117}}
    assert run("offsets", "import", str(file), "x")[0] == 2
    assert run("offsets", "import", str(tmp_path / "lines.json"))[0] == 2


def test_plugins_and_loggers_are_shown(served: Served, run: Run) -> None:
    assert "FileStreamSource" in run("plugins")[1]
    assert "JsonConverter" not in run("plugins")[1]
    assert "JsonConverter" in run("plugins", "--all")[1]
    rows = [line.split() for line in run("plugins", LINES)[1].splitlines()]
    assert ["topic", "STRING", "(required)"] in rows
    assert ["batch.size", "INT", "2000"] in rows
    assert run("logs", "minikafka.connect.cli.t", "debug")[0] == 0
    assert run("logs", "minikafka.connect.cli.t")[1].splitlines()[1].split() == [
        "minikafka.connect.cli.t", "DEBUG"
    ]  # fmt: skip
    assert run("logs", "minikafka.connect.cli.t", "loud")[0] == 1


def test_a_plan_shows_the_difference_and_apply_makes_it_so(
    served: Served, run: Run, tmp_path: Path
) -> None:
    secrets = {"db.password": "s3cret", "ssl.key.password": "${env:F}"}
    write(tmp_path, "a", secrets, initial_state="PAUSED")
    write(tmp_path, "b", {"file": "x"})
    (tmp_path / "note.txt").write_text("no connector")
    told = (
        "+ create a (PAUSED)\n"
        f"    + connector.class = {LINES}\n"
        "    + db.password = (hidden)\n"
        "    + ssl.key.password = ${env:F}\n"
        "    + topic = t\n"
        f"+ create b\n    + connector.class = {LINES}\n    + file = x\n    + topic = t\n"
    )
    assert run("plan", str(tmp_path)) == (3, told, "")
    assert run("list")[1].count("\n") == 1
    assert run("apply", str(tmp_path)) == (0, told + "created a\ncreated b\n", "")
    assert run("plan", str(tmp_path)) == (0, "nothing to do\n", "")
    write(tmp_path, "b", {"file": "y", "batch.size": "7"})
    (tmp_path / "a.json").unlink()
    (tmp_path / "c.properties").write_text(f"name=c\nconnector.class={LINES}\ntopic=t\n")
    code, out, _ = run("plan", str(tmp_path), "--prune", "--json")
    assert code == 3
    assert [(each["action"], each["name"], each["keys"]) for each in json.loads(out)] == [
        ("update", "b", ["+ batch.size = 7", "~ file = x -> y"]),
        ("create", "c", [f"+ connector.class = {LINES}", "+ topic = t"]),
        ("delete", "a", []),
    ]
    assert run("apply", str(tmp_path), "--prune")[1].endswith("updated b\ncreated c\ndeleted a\n")
    assert json.loads(run("list", "--json")[1]).keys() == {"b", "c"}


def test_nothing_is_applied_if_a_file_is_wrong(served: Served, run: Run, tmp_path: Path) -> None:
    write(tmp_path, "a", {})
    write(tmp_path, "b", {"mode": "odd"})
    write(tmp_path, "c", {"connector.class": "Unknown"})
    for verb in ("plan", "apply"):
        code, _, err = run(verb, str(tmp_path))
        assert code == 1
        assert "! Invalid value odd for configuration mode" in err
        assert "! Failed to find any class" in err
    assert json.loads(run("list", "--json")[1]) == {}
    (tmp_path / "d.json").write_text("{")
    assert run("plan", str(tmp_path))[0] == 2
    write(tmp_path, "d", {"connector.class": ILL})
    assert "the database is away" in run("plan", str(tmp_path))[2]


def test_wrong_arguments_end_with_2_and_a_silent_worker_with_1(run: Run, tmp_path: Path) -> None:
    assert run("update", "c")[0] == 2
    assert run("list", "--url", "worker:8083")[0] == 2
    assert run("create", str(tmp_path / "none.json"))[0] == 2
    code, _, err = run("list", "--url", "http://127.0.0.1:1")
    assert (code, "no worker answers at http://127.0.0.1:1" in err) == (1, True)


def test_a_request_is_sent_again_while_the_group_rebalances(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused: list[float] = []
    answers = [Refused(409, "... (e.g. worker rebalance)"), Refused(409, "it is out of its group")]
    api = ConnectApi("http://worker:8083", paused.append)

    def once(method: str, url: str, data: bytes | None) -> object:
        if answers:
            raise answers.pop()
        return {"url": url}

    monkeypatch.setattr(api, "_once", once)
    assert api.ask("GET", "connectors", "a/b", query="x=y") == {
        "url": "http://worker:8083/connectors/a%2Fb?x=y"
    }
    assert paused == [1, 1]
    answers += [Refused(409, "Connector c already exists")]
    with pytest.raises(Refused, match="already exists"):
        api.ask("POST", "connectors")
    answers += [Refused(409, "rebalance")] * 9
    with pytest.raises(Refused, match="rebalance"):
        api.ask("POST", "connectors")
