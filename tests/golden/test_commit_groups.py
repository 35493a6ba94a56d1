"""Scripts and transcripts of a commit group: every answer and every batch, to be read as prose.

Each `.txt` holds steps: commands, `----`, what was answered and stored, an empty line. `--rewrite`
writes down what happens now; the diff is the review.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from minikafka.broker.coordinator.transaction.commit_group import GroupDecision, Named
from minikafka.broker.coordinator.transaction.records import from_record
from minikafka.protocol.coordinator_records import (
    CommitGroupRecord,
    TransactionRecord,
    decode_transaction_record,
)
from minikafka.protocol.errors import ErrorCode

from ..broker.commit_group_lab import GROUP, CommitGroupLab
from .transcript import play

SCRIPTS = sorted((Path(__file__).parent / "commit_groups").glob("*.txt"))


class Play:
    """Carries out one script's commands on one group."""

    def __init__(self) -> None:
        self.lab = CommitGroupLab()
        self.said: list[str] = []
        self.held: dict[str, Named] = {}
        """What each task's producer has open, by the name of the task."""
        self.written = 0

    def run(self, line: str) -> list[str]:
        name, *options = line.split()
        command: Callable[..., None] = getattr(self, f"do_{name}")
        self.said = []
        command(*options)
        self.tell_log()
        return self.said or ["nothing changes"]

    def tell_log(self) -> None:
        for batch in self.lab.log[self.written :]:
            told = "; ".join(_told(key, value) for key, value in batch)
            self.said.append(f"log: {told}")
        self.written = len(self.lab.log)

    # Commands.

    def do_level(self, level: str) -> None:
        """The finalised transaction.version."""
        self.lab.level = int(level)

    def do_run(self, run: str) -> None:
        """A driver takes the group over."""
        found = self.lab.run(run)
        self.said.append(f"{run} <- {_answer(found)}")

    def do_open(self, *names: str) -> None:
        """Tasks begin transactions, by producers of their own."""
        for name in names:
            self.held[name] = self.lab.open(name)

    def do_write(self, name: str) -> None:
        """A task's producer sends another record."""
        self.said.append(f"{name} <- {self.lab.add(self.held[name]).name}")

    def do_commit(self, generation: str, batch: str, *names: str) -> None:
        """A driver of this generation names transactions; NAME* as of another epoch."""
        named = [self._named(name) for name in names]
        found = self.lab.commit(int(generation), int(batch), *named)
        self.said.append(f"driver <- {_answer(found)}")

    def do_commit_unanswered(self, generation: str, batch: str, *names: str) -> None:
        """The same, and the coordinator dies when it is committed."""
        self.lab.decide(int(generation), int(batch), *(self._named(name) for name in names))
        self.tell_log()
        self.lab = self.lab.fail_over()

    def do_commit_lost(self, generation: str, batch: str, *names: str) -> None:
        """The same, and the coordinator dies before that."""
        self.lab.decide(int(generation), int(batch), *(self._named(name) for name in names))
        self.lab = self.lab.fail_over(without_last=True)
        self.written = len(self.lab.log)

    def do_overdue(self, name: str) -> None:
        """Its transaction timeout is over."""
        self.lab.time_out(name)

    def do_markers(self) -> None:
        """Every marker is written."""
        self.lab.complete()

    def do_failover(self) -> None:
        self.lab = self.lab.fail_over()

    def do_log(self, answer: str) -> None:
        """refuses, or works"""
        self.lab.commits = answer == "works"

    def do_states(self) -> None:
        for name, state in self.lab.states().items():
            self.said.append(f"   {name}: {state.title}")

    def _named(self, name: str) -> Named:
        held = self.held[name.rstrip("*")]
        return held._replace(epoch=held.epoch - 1) if name.endswith("*") else held


def _answer(found: GroupDecision) -> str:
    if found.error:
        return f"{found.error.name}: {found.message}" if found.message else found.error.name
    if found.is_replay:
        return f"{ErrorCode.NONE.name}, a replay"
    assert found.group is not None
    return f"generation {found.group.generation}, batch {found.group.batch_id}"


def _told(key: bytes, value: bytes | None) -> str:
    record = decode_transaction_record(key, value)
    if isinstance(record, TransactionRecord):
        transaction = from_record(record)
        assert transaction is not None
        name = record.key.transactional_id.removeprefix(f"{GROUP}/")
        who = f"producer {transaction.producer_id} epoch {transaction.epoch}"
        return f"{name} {transaction.state.title} ({who})"
    assert isinstance(record, CommitGroupRecord)
    assert record.value is not None
    runs = " ".join(record.value.runs)
    return (
        f"group {record.key.group} generation {record.value.generation} "
        f"batch {record.value.batch_id} runs [{runs}]"
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_transcript_is_what_happens(script: Path, request: pytest.FixtureRequest) -> None:
    before = script.read_text()
    now = play(before, Play())
    if request.config.getoption("--rewrite"):
        script.write_text(now)
    assert now == before
