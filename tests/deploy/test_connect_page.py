"""docs/connect.md: each of its commands is executed, in the order of the page."""

import contextlib
import json
import re
import shutil
import socket
from functools import partial
from pathlib import Path

import pytest

from ..support.cluster import wait_until
from ..support.cluster_page import DOCS, WITHIN_S, ClusterPage, outside_of_blocks, page_of

PAGE = page_of("connect.md")
CONSUME = (
    "minikafka console-consumer --bootstrap-server localhost:9092 --topic {topic}"
    " --from-beginning --max-messages {count}"
)
PORTS = ("8083", "8084", "8085")
LOGS = {
    "connect-standalone": ["connect.log"],
    "connect-distributed": ["group-1.log", "group-2.log"],
}


class ConnectPage(ClusterPage):
    """The page's workers take ports that are free; commands wait until they are ready."""

    def __init__(self, directory: Path) -> None:
        with contextlib.ExitStack() as bound:
            free = [bound.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
            self._ports = {
                port: str(at.getsockname()[1]) for port, at in zip(PORTS, free, strict=True)
            }
        self._directory = directory
        super().__init__(directory)
        self.run("export MINIKAFKA_CONNECT_URL=http://127.0.0.1:8083")

    def run(self, block: str, within_s: float = WITHIN_S) -> str:
        """Run a block; after workers were started wait until they are ready."""
        here = re.sub("|".join(PORTS), lambda found: self._ports[found[0]], block)
        shown = super().run(here, within_s)
        started = [logs for command, logs in LOGS.items() if f"minikafka {command}" in block]
        for log in [log for logs in started for log in logs]:
            wait_until(partial(self._is_ready, log), within_s=within_s)
        return shown

    def _is_ready(self, log: str) -> bool:
        path = self._directory / log
        return path.exists() and " ready {" in path.read_text()


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


def numbers(shown: str) -> list[str]:
    return [line for line in shown.splitlines() if line.isdecimal()]


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    shutil.copy(DOCS / "examples" / "sqlite_notes.py", tmp_path)
    with ConnectPage(tmp_path) as page:
        shown = page.run_all(PAGE)
        wait_until(lambda: (tmp_path / "out.txt").read_text().split() == ["1", "2", "3"] * 2)
        # A worker of the group ends, and the other one has its connector.
        page.run("kill %3; wait %3; echo 7 >> more.txt")
        taken_over = page.run(CONSUME.format(topic="more", count=4))
        # It is killed, and a third one has it after session and delay.
        page.run(
            "rm group-1.log; minikafka connect-distributed group.properties"
            " --override listeners=http://127.0.0.1:8084 > group-1.log 2>&1 &"
        )
        page.run("kill -9 %4; wait %4 || true; echo 8 >> more.txt")
        after_kill = page.run(CONSUME.format(topic="more", count=5))
        # The worker without a group ends, and another one goes on where it was.
        page.run("kill %2; wait %2; rm connect.log")
        page.run(
            "minikafka connect-standalone worker.properties connectors/*.json > connect.log 2>&1 &"
        )
        page.run("echo 4 >> in.txt")
        again = page.run(CONSUME.format(topic="lines", count=7))
    _, _, _, first, created, planned, offsets, _, group, notes = shown
    lines, _, listed = first.partition("NAME")
    assert numbers(lines) == ["1", "2", "3"]
    assert re.search(r"lines\s+source\s+RUNNING\s+1/1", listed)
    assert "created copy" in created
    assert re.search(r"task 0\s+RUNNING", created)
    assert "~ update lines" in planned
    assert "+ batch.size = 500" in planned
    assert "updated lines" in planned
    assert planned.rstrip().endswith("nothing to do")
    assert '"filename": "in.txt"' in offsets
    assert "The offsets for this connector have been reset successfully" in offsets
    assert numbers(offsets) == ["1", "2", "3"] * 2
    assert numbers(group) == ["4", "5", "6"]
    assert re.search(r"more\s+source\s+RUNNING\s+1/1", group)
    assert sorted(numbers(taken_over)) == ["4", "5", "6", "7"]
    assert sorted(numbers(after_kill)) == ["4", "5", "6", "7", "8"]
    assert notes.split("created notes")[1].split()[:2] == ["milk", "bread"]
    assert numbers(again)[-2:] == ["3", "4"]


def test_the_bodies_of_the_page_are_json() -> None:
    bodies = re.findall(r"(?m)^\{.*\}$", PAGE)
    assert [json.loads(body)["name"] for body in bodies] == ["lines", "copy", "more", "notes"]
