"""The controller as a process: ready, killed, started again; what it says of mistakes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from minikafka.client.net.control import ControlConnection
from minikafka.protocol.api import ApiKey
from minikafka.protocol.control import messages as m
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

from .conftest import FakeBroker

pytestmark = [pytest.mark.slow, pytest.mark.processes]
PROGRAM = Path(sys.executable).with_name("minikafka-controller")


def command(directory: Path, *overrides: str) -> list[str]:
    given = ["node.id=9", f"log.dirs={directory}", "listeners=CONTROLLER://127.0.0.1:0", *overrides]
    return [str(PROGRAM), *(word for each in given for word in ("--override", each))]


@contextmanager
def controller(directory: Path) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """A running one, and the port it listens on."""
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*command(directory), "--ready-fd", str(writing)],
        pass_fds=[writing],
        stderr=subprocess.DEVNULL,
    )
    os.close(writing)
    try:
        with os.fdopen(reading) as ready:
            told = json.loads(ready.readline())
        assert told["node_id"] == 9
        yield process, told["listeners"]["CONTROLLER"][1]
    finally:
        process.kill()
        process.wait()


async def connect(port: int) -> FakeBroker:
    hello = m.Hello(None, 1, 1, 1, m.ROLE_BROKER, bytes(16))
    return FakeBroker(1, await ControlConnection.open("127.0.0.1", port, hello, timeout_ms=10_000))


async def test_what_was_answered_survives_kill_9(tmp_path: Path) -> None:
    created: dict[str, bytes] = {}
    epochs = []
    for turn in range(3):
        with controller(tmp_path) as (process, port):
            broker = await connect(port)
            broker.incarnation = turn + 1
            await broker.come_up()
            for name, topic_id in created.items():
                assert broker.image.topic_ids[name] == topic_id
            epochs.append(broker.image.epoch)
            for number in range(5):
                result = await broker.create_topic(f"t{turn}-{number}", 2, 1)
                created[result.name] = result.topic_id
            # Killed with requests under way: their fate is open, that of the others is not.
            topic = CreatableTopic(name=f"open{turn}", num_partitions=1, replication_factor=1)
            body = CreateTopicsRequest(topics=[topic])
            asked = asyncio.create_task(broker.forward(ApiKey.CREATE_TOPICS, 7, body))
            await asyncio.sleep(0)
            process.send_signal(signal.SIGKILL)
            (result,) = await asyncio.gather(asked, return_exceptions=True)
            if not isinstance(result, BaseException):
                created[result.topics[0].name] = result.topics[0].topic_id
            await broker.connection.wait_until_closed()
    assert len(created) >= 15
    assert epochs == sorted(set(epochs))


def test_sigterm_is_a_clean_end(tmp_path: Path) -> None:
    with controller(tmp_path) as (process, _):
        process.terminate()
        assert process.wait(timeout=30) == 0
    with controller(tmp_path) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("nodeid=9", ["nodeid=9", "unknown key"]),
        ("num.partitions=0", ["num.partitions=0", "at least 1"]),
        ("listeners=nonsense", ["listeners=nonsense", "NAME://host:port"]),
        ("listeners=PLAINTEXT://127.0.0.1:0", ["listeners", "controller.listener.names"]),
        ("controller.quorum.voters=1@h:1", ["controller.quorum.voters", "node.id=9"]),
        ("log.dirs=/proc/nowhere", ["log.dirs=/proc/nowhere", "cannot be used"]),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    tmp_path: Path, override: str, words: list[str]
) -> None:
    ended = subprocess.run(
        command(tmp_path, override), capture_output=True, text=True, timeout=30, check=False
    )
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    for word in words:
        assert word in line
    assert ended.stdout == ""


def test_a_directory_in_use_and_a_port_in_use(tmp_path: Path) -> None:
    with controller(tmp_path / "one") as (_, port):
        taken = f"listeners=CONTROLLER://127.0.0.1:{port}"
        for directory, override, word in [
            (tmp_path / "one", "num.partitions=1", "locked"),
            (tmp_path / "two", taken, "cannot listen"),
        ]:
            ended = subprocess.run(
                command(directory, override),
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert ended.returncode == 2
            assert word in ended.stderr.splitlines()[-1]
