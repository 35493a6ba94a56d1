"""`server-start` and `server-stop`: which daemon is started, which ones are stopped."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minikafka.deploy import server_start, server_stop
from minikafka.deploy.cli import main
from minikafka.deploy.daemons import select_readable
from minikafka.deploy.server_stop import Server
from minikafka.runtime.errors import ConfigError

from ..support.cluster import free_ports, wait_until

NODE = 770_001
"""No other daemon on a machine has such an id: the tests stop what they started only."""
FILE = "node.id=7\nlisteners=PLAINTEXT://127.0.0.1:1\n"
HERE = ("python3.11", "-m", "minikafka.broker", "server.properties")


class Machine:
    """Processes of a machine, as /proc shows them; `killed` is who got which signal."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.killed: list[tuple[int, int]] = []

    def add(self, pid: int, *command: str, file: str = FILE) -> None:
        directory = self.proc / f"cwd-{pid}"
        directory.mkdir()
        (directory / "server.properties").write_text(file)
        (self.proc / str(pid)).mkdir()
        (self.proc / str(pid) / "cmdline").write_text("".join(f"{each}\0" for each in command))
        (self.proc / str(pid) / "cwd").symlink_to(directory)

    def kill(self, pid: int, number: int) -> None:
        if pid == 666:
            raise ProcessLookupError
        self.killed.append((pid, number))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(server_stop, "PROC", tmp_path)
    monkeypatch.setattr(os, "kill", made.kill)
    monkeypatch.delenv("SIGNAL", raising=False)
    return made


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["minikafka", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    return exit_.value.code


@pytest.mark.parametrize(
    ("command", "file", "server"),
    [
        (HERE, FILE, Server(5, "broker", 7)),
        (
            ("/venv/bin/python", "/venv/bin/minikafka-controller", "server.properties"),
            "broker.id=8\n",
            Server(5, "controller", 8),
        ),
        ((*HERE, "--override", "node.id=9"), FILE, Server(5, "broker", 9)),
        ((*HERE[:3], "--override=node.id=9", HERE[3]), FILE, Server(5, "broker", 9)),
        ((*HERE[:3], "--log-level", "DEBUG", HERE[3]), FILE, Server(5, "broker", 7)),
        ((*HERE[:3], "elsewhere.properties"), FILE, Server(5, "broker", None)),
        (HERE, "node.id=none\n", Server(5, "broker", None)),
        (("minikafka-broker /tmp/up/broker-1/server.properties", ""), FILE, None),
        (("python", "-m", "minikafka.deploy.nursery"), FILE, None),
        (("python", "bin/minikafka", "server-stop"), FILE, None),
        (("vim", "minikafka-broker"), FILE, None),
        (("python",), FILE, None),
        ((), FILE, None),
    ],
)
def test_daemons_are_known_by_their_command(
    machine: Machine, command: tuple[str, ...], file: str, server: Server | None
) -> None:
    machine.add(5, *command, file=file)
    assert list(server_stop.servers(machine.proc)) == ([] if server is None else [server])


@pytest.mark.parametrize(
    ("flags", "stopped"),
    [
        ((), [11, 12, 13]),
        (("--process-role", "broker"), [11, 12]),
        (("--node-id", "8"), [12]),
        (("--process-role", "controller", "--node-id", "9"), [13]),
    ],
)
def test_who_is_meant_is_asked_to_stop(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], stopped: list[int]
) -> None:
    machine.add(11, *HERE)
    machine.add(12, *HERE, "--override", "node.id=8")
    machine.add(13, "python", "minikafka-controller", "server.properties", file="node.id=9\n")
    assert run(monkeypatch, "server-stop", *flags) == 0
    assert machine.killed == [(pid, signal.SIGTERM) for pid in stopped]


def test_where_nothing_runs_the_exit_code_is_1(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As with Kafka's script; a daemon that ended just now is none."""
    machine.add(666, *HERE)
    assert run(monkeypatch, "server-stop") == 1
    assert run(monkeypatch, "server-stop", "--node-id", "8") == 1
    assert capsys.readouterr().out == "No kafka server to stop\n" * 2


@pytest.mark.parametrize(
    ("name", "number"), [("KILL", signal.SIGKILL), ("SIGINT", signal.SIGINT), ("10", 10)]
)
def test_another_signal_may_be_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    machine.add(11, *HERE)
    monkeypatch.setenv("SIGNAL", name)
    assert run(monkeypatch, "server-stop") == 0
    assert machine.killed == [(11, number)]


def test_a_signal_that_is_none_is_refused(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.add(11, *HERE)
    monkeypatch.setenv("SIGNAL", "STOPP")
    assert run(monkeypatch, "server-stop") == 2
    assert "SIGNAL=STOPP: is no signal" in capsys.readouterr().err
    assert machine.killed == []


# -- server-start


@pytest.mark.parametrize(
    ("roles", "role"), [(None, "broker"), ("broker", "broker"), (" controller", "controller")]
)
def test_the_file_says_which_daemon_it_is_for(roles: str | None, role: str) -> None:
    assert server_start.role_of({} if roles is None else {"process.roles": roles}) == role


@pytest.mark.parametrize("roles", ["broker,controller", "zookeeper", ""])
def test_other_roles_are_refused(roles: str) -> None:
    with pytest.raises(ConfigError, match="must be broker or controller"):
        server_start.role_of({"process.roles": roles})


def test_in_the_foreground_this_process_becomes_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[tuple[str, list[str]]] = []

    def execv(program: str, command: list[str]) -> None:
        became.append((program, command))

    monkeypatch.setattr(os, "execv", execv)
    file = tmp_path / "server.properties"
    file.write_text(FILE)
    assert run(monkeypatch, "server-start", str(file), "--override", "node.id=8") == 0
    command = [sys.executable, "-m", "minikafka.broker", str(file), "--override=node.id=8"]
    assert became == [(sys.executable, command)]


def test_a_wrong_configuration_is_told_before_a_daemon_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    file = tmp_path / "server.properties"
    file.write_text(f"{FILE}node.ix=3\n")
    assert run(monkeypatch, "server-start", "-daemon", str(file)) == 2
    assert "node.ix=3: unknown key" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


@pytest.mark.slow
@pytest.mark.processes
def test_a_daemon_in_the_background_lives_until_it_is_stopped(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    file = tmp_path / "controller.properties"
    file.write_text(
        f"process.roles=controller\nnode.id={NODE}\nlog.dirs={tmp_path}/data\n"
        f"listeners=CONTROLLER://127.0.0.1:{port}\n"
        f"controller.quorum.voters={NODE}@127.0.0.1:{port}\n"
    )
    command = [sys.executable, "-c", "from minikafka.deploy.cli import main; main()"]
    environment = {**os.environ, "LOG_DIR": str(tmp_path / "logs")}

    def minikafka(*arguments: str) -> str:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=60, env=environment
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    log = tmp_path / "logs" / f"controller-{NODE}.out"
    said = minikafka("server-start", "-daemon", str(file))
    assert said.startswith(f"started controller-{NODE}, process ")
    assert said.endswith(f", log {log}\n")
    pid = int(said.split(", process ")[1].split(",")[0])
    ended = os.pidfd_open(pid)
    try:
        wait_until(lambda: "active in epoch 1" in log.read_text())
        minikafka("server-stop", "--node-id", str(NODE))
        assert select_readable(ended, 30_000), "it has not stopped"
    finally:
        if not select_readable(ended, 0):
            signal.pidfd_send_signal(ended, signal.SIGKILL)
        os.close(ended)
    assert "stopping: SIGTERM" in log.read_text()
