"""The daemon's life, in real processes: signals, pipes and exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from minikafka.runtime.daemon import load_properties
from minikafka.runtime.errors import ConfigError

pytestmark = [pytest.mark.slow, pytest.mark.processes]

PROGRAM = textwrap.dedent(
    """
    import asyncio, sys
    from minikafka.runtime.config import check_keys, config_table, from_mapping, setting
    from minikafka.runtime.daemon import Plan, daemon_command
    from minikafka.runtime.errors import ConfigError, InvariantViolation, StorageError

    @config_table
    class Config:
        node_id: int = setting("node.id", doc="Names the node.")
        fault: str = setting("fault", "", doc="What goes wrong.")

    class Service:
        def __init__(self, config):
            self.config = config
        def ready(self):
            return {"node_id": self.config.node_id}
        async def stop(self):
            if self.config.fault == "stop":
                raise StorageError("disk gone")
            print("stopped cleanly", flush=True)

    def prepare(properties):
        warnings = check_keys(properties, Config, known_unused={"num.io.threads": "no threads"})
        config = from_mapping(Config, properties)
        async def start(runtime, stop):
            fault = config.fault
            if fault == "config":
                raise ConfigError("listeners", "x:1", "port in use")
            if fault == "storage":
                raise StorageError("disk gone")
            if fault == "slow":
                print("starting", flush=True)
                await asyncio.Event().wait()
            if fault == "task":
                async def fail():
                    raise ValueError("planted")
                runtime.spawn(fail(), "failing")
            if fault == "invariant":
                def violate():
                    raise InvariantViolation("impossible")
                asyncio.get_running_loop().call_soon(violate)
            if fault == "ask":
                stop.request(1, "asked to")
            return Service(config)
        return Plan(f"test-{config.node_id}", start, warnings)

    daemon_command("test-daemon", prepare, help="A daemon.")()
    """
)


class Daemon:
    def __init__(self, tmp_path: Path, *args: str, pass_fds: tuple[int, ...] = ()) -> None:
        script = tmp_path / "daemon.py"
        script.write_text(PROGRAM)
        self.process = subprocess.Popen(
            [sys.executable, str(script), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=pass_fds,
        )

    def wait(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


def ready_daemon(tmp_path: Path, *args: str) -> tuple[Daemon, dict[str, int]]:
    """Start one and wait until it says that it is ready."""
    reading, writing = os.pipe()
    daemon = Daemon(tmp_path, *args, "--ready-fd", str(writing), pass_fds=(writing,))
    os.close(writing)
    with os.fdopen(reading) as pipe:
        line = pipe.readline()
        assert pipe.read() == ""
    return daemon, json.loads(line)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("node.id=3\nnum.io.threads=8\n")
    daemon, ready = ready_daemon(tmp_path, str(properties), "--override", "node.id=4")
    assert ready == {"node_id": 4}
    daemon.process.send_signal(number)
    code, out, err = daemon.wait()
    assert (code, out) == (0, "stopped cleanly\n")
    assert "WARNING" in err.splitlines()[0]
    assert "num.io.threads has no effect: no threads" in err.splitlines()[0]
    assert f"stopping: {number.name}" in err


def test_systemd_is_told_that_it_is_ready_and_that_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        daemon = Daemon(tmp_path, "--override", "node.id=4")
        assert systemd.recv(999) == b'READY=1\nSTATUS={"node_id": 4}'
        daemon.process.send_signal(signal.SIGTERM)
        assert systemd.recv(999) == b"STOPPING=1\nSTATUS=stopping: SIGTERM"
        assert daemon.wait()[0] == 0


def test_it_logs_as_its_options_say(tmp_path: Path) -> None:
    path = tmp_path / "daemon.log"
    options = ("--log-format", "json", "--log-file", str(path), "--log-level", "minikafka=DEBUG")
    daemon, _ = ready_daemon(tmp_path, "--override", "node.id=4", *options)
    daemon.process.terminate()
    assert daemon.wait() == (0, "stopped cleanly\n", "")
    said = [json.loads(line) for line in path.read_text().splitlines()]
    assert {each["node"] for each in said} == {"test-4"}
    assert "stopping: SIGTERM" in [each["message"] for each in said]


def test_it_ends_with_its_lifeline(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    daemon = Daemon(
        tmp_path, "--override", "node.id=1", "--lifeline-fd", str(reading), pass_fds=(reading,)
    )
    os.close(reading)
    os.write(writing, b"not the end yet")
    os.close(writing)
    code, out, err = daemon.wait()
    assert (code, out) == (0, "stopped cleanly\n")
    assert "the launcher is gone" in err


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ([], "test-daemon: node.id: is required"),
        (["--override", "node.id=x"], "test-daemon: node.id=x: must be an integer"),
        (["--override", "x"], "test-daemon: --override=x: must be key=value"),
        (
            ["--override", "node.id=1", "--log-level", "minikafka.rntime=DEBUG"],
            "test-daemon: --log-level=minikafka.rntime=DEBUG: there is no logger minikafka.rntime;"
            " did you mean minikafka.runtime?",
        ),
        (
            ["--override", "node.idd=1"],
            "test-daemon: node.idd=1: unknown key; did you mean node.id?",
        ),
        (["/no/such"], "test-daemon: /no/such: No such file or directory"),
    ],
)
def test_wrong_configuration_is_one_line_and_exit_code_2(
    tmp_path: Path, args: list[str], line: str
) -> None:
    assert Daemon(tmp_path, *args).wait() == (2, "", f"{line}\n")


@pytest.mark.parametrize(
    ("fault", "code", "says"),
    [
        ("config", 2, "listeners=x:1: port in use"),
        ("storage", 1, "cannot start: disk gone"),
        ("task", 1, "stopping: task failing failed: ValueError('planted')"),
        ("invariant", 1, "stopping: invariant violated: impossible"),
    ],
)
def test_what_ends_it_without_a_clean_stop(
    tmp_path: Path, fault: str, code: int, says: str
) -> None:
    daemon = Daemon(tmp_path, "--override", "node.id=1", "--override", f"fault={fault}")
    returned, out, err = daemon.wait()
    assert (returned, out) == (code, "")
    assert says in err
    assert all(record[:2] == "20" for record in err.splitlines())  # one line each


def test_it_can_ask_for_its_own_end(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "--override", "node.id=1", "--override", "fault=ask")
    code, out, err = daemon.wait()
    assert (code, out) == (1, "stopped cleanly\n")
    assert "stopping: asked to" in err


def test_a_stop_that_fails_is_said_so(tmp_path: Path) -> None:
    daemon, _ = ready_daemon(tmp_path, "--override", "node.id=1", "--override", "fault=stop")
    daemon.process.terminate()
    code, _, err = daemon.wait()
    assert code == 1
    assert "the stop was not clean: disk gone" in err


def test_it_can_be_stopped_while_it_starts(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "--override", "node.id=1", "--override", "fault=slow")
    assert daemon.process.stdout is not None
    assert daemon.process.stdout.readline() == "starting\n"
    daemon.process.terminate()
    code, out, _ = daemon.wait()
    assert (code, out) == (0, "")


def test_a_killed_daemon_leaves_no_worker(tmp_path: Path) -> None:
    script = tmp_path / "offload.py"
    script.write_text(
        textwrap.dedent(
            """
            import asyncio, os
            from minikafka.runtime.runtime import SystemRuntime

            async def main():
                print(await SystemRuntime().offload(os.getpid), flush=True)
                await asyncio.Event().wait()

            if __name__ == "__main__":
                asyncio.run(main())
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not Path(f"/proc/{worker}").exists()


def test_a_file_that_is_no_properties_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("".join(f"unknown.key.{n}=x\n" for n in range(300_000)))
    with pytest.raises(ConfigError, match="this is no properties file"):
        load_properties(str(path), ())


def test_one_that_was_asked_to_stop_while_it_started_is_never_ready(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    overrides = ("--override", "node.id=1", "--override", "fault=ask")
    daemon = Daemon(tmp_path, *overrides, "--ready-fd", str(writing), pass_fds=(writing,))
    os.close(writing)
    code, out, err = daemon.wait()
    with os.fdopen(reading) as pipe:
        assert pipe.read() == ""
    assert (code, out) == (1, "stopped cleanly\n")
    assert "stopping: asked to" in err
    assert "ready" not in err
