"""Scripts and transcripts of a classic group: every answer and every record, to be read as prose.

Each `.txt` holds steps: commands, `----`, what was answered and stored, an empty line. `--rewrite`
writes down what happens now; the diff is the review.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.protocol.errors import ErrorCode

from ..broker.group_lab import Client, GroupLab
from .transcript import play

SCRIPTS = sorted((Path(__file__).parent / "groups").glob("*.txt"))


class Play:
    """Carries out one script's commands on one group."""

    def __init__(self) -> None:
        self.lab = GroupLab()
        self.before = ""

    def run(self, line: str) -> list[str]:
        name, *options = line.split()
        command: Callable[..., None] = getattr(self, f"do_{name}")
        self.lab.said = []
        command(*options)
        self.lab.check()
        group = self.lab.group
        members = " ".join(map(self.lab.name_of, group.roster.members))
        now = f"   {group.phase.value}, generation {group.phases.generation}: [{members}]"
        said = [*self.lab.said, *([now] if now != self.before else [])]
        self.before = now
        return said or ["nothing changes"]

    # Commands.

    def do_group(self, *options: str) -> None:
        """delay=MS size=N"""
        given = dict(option.split("=") for option in options)
        self.lab = GroupLab(
            initial_rebalance_delay_ms=int(given.get("delay", "0")),
            max_size=int(given.get("size", "1000")),
        )

    def do_client(self, name: str, *options: str) -> None:
        """speaks=A,B reads=T,U static=NAME session=MS rebalance=MS version=N type=TYPE"""
        given = dict(option.split("=") for option in options)
        present = self.lab.clients.get(name) or Client(name)
        present.protocols = tuple(given.get("speaks", ",".join(present.protocols)).split(","))
        present.topics = tuple(given.get("reads", ",".join(present.topics)).split(","))
        present.instance_id = given.get("static", present.instance_id)
        present.session_ms = int(given.get("session", present.session_ms))
        present.rebalance_ms = int(given.get("rebalance", present.rebalance_ms))
        present.version = int(given.get("version", present.version))
        present.protocol_type = given.get("type", present.protocol_type)
        self.lab.clients[name] = present

    def do_join(self, *names: str) -> None:
        for name in names:
            self.lab.join(name)

    def do_join_once(self, name: str) -> None:
        self.lab.join_once(name)

    def do_assign(self) -> None:
        """Everybody syncs; the leader gives each its own name."""
        self.lab.assign()

    def do_sync(self, name: str, *given: str) -> None:
        """NAME=ASSIGNMENT ... from the leader"""
        pairs = (each.split("=") for each in given)
        self.lab.sync(name, {key: value.encode() for key, value in pairs})

    def do_beat(self, *names: str) -> None:
        for name in names:
            self.lab.said.append(f"{name} <- beat: {self.lab.beat(name).name}")

    def do_leave(self, *names: str) -> None:
        errors = self.lab.leave(*names)
        for name, error in zip(names, errors, strict=True):
            self.lab.said.append(f"{name} <- leave: {error.name}")

    def do_restart(self, name: str) -> None:
        """The application starts anew: it does not remember its member id."""
        self.lab.clients[name].member_id = ""
        self.lab.clients[name].generation = -1

    def do_pass(self, milliseconds: str) -> None:
        self.lab.wait(int(milliseconds))

    def do_log(self, answer: str) -> None:
        """refuses-NAME, or works"""
        self.lab.refusal = ErrorCode[answer.removeprefix("refuses-")] if "-" in answer else (
            ErrorCode.NONE
        )  # fmt: skip

    def do_failover(self) -> None:
        self.lab.fail_over()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_transcript_is_what_happens(script: Path, request: pytest.FixtureRequest) -> None:
    before = script.read_text()
    now = play(before, Play())
    if request.config.getoption("--rewrite"):
        script.write_text(now)
    assert now == before
