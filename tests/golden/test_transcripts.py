"""Scripts and transcripts of the replication machines, to be read and reviewed as prose.

Each `.txt` holds steps: a line of commands, `----`, what happened, an empty line. Run with
`--rewrite` to write down what happens now; the diff is the review.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..broker.model import Broker, Cluster, MemoryLog
from .transcript import play

SCRIPTS = sorted((Path(__file__).parent / "replication").glob("*.txt"))


class Stage:
    """Carries out one script's commands on one cluster."""

    def __init__(self) -> None:
        self.cluster = Cluster()

    def run(self, line: str) -> list[str]:
        name, *words = line.split()
        command: Callable[..., list[str] | None] = getattr(self, f"do_{name}")
        said = command(*words)
        return [*self.cluster.take_story(), *(said or [])] or ["ok"]

    def broker(self, word: str) -> Broker:
        return self.cluster.brokers[int(word)]

    def do_cluster(self, *options: str) -> None:
        given = dict(option.split("=") for option in options)
        brokers = tuple(int(b) for b in given.get("brokers", "1,2,3").split(","))
        self.cluster = Cluster(min_isr=int(given.get("min_isr", "2")), brokers=brokers)
        self.cluster.publish()

    def do_append(self, broker: str, *values: str) -> list[str]:
        for value in values:
            self.broker(broker).append(value, self.cluster.now_ms)
        end = self.broker(broker).log.log_end_offset
        return [
            f"{broker} log_end_offset={end} high_watermark={self.broker(broker).high_watermark}"
        ]

    def do_fetch(self, *brokers: str) -> list[str]:
        """Each follower fetches once and hears the answer."""
        for broker in brokers:
            request = self.cluster.fetch(int(broker))
            if request is None:
                self.cluster.story.append(f"{broker} does not fetch")
                continue
            position = request.position
            self.cluster.story.append(
                f"{broker} fetches at {position.offset} (last epoch"
                f" {position.last_fetched_epoch}) from {request.leader} in epoch"
                f" {position.leader_epoch}"
            )
            self.cluster.deliver(request)
            if self.cluster.messages and self.cluster.messages[-1] is not request:
                answers = [m for m in self.cluster.messages if getattr(m, "request", 0) is request]
                for answer in answers:
                    self.cluster.deliver(answer)
        return []

    def do_controller(self, verb: str, *brokers: str) -> list[str]:
        """fence, unfence, prefer, elect_uncleanly; nobody hears of it before `publish`."""
        for broker in brokers:
            getattr(self.cluster.controller, verb)(int(broker))
        now = self.cluster.controller.metadata
        return [
            f"controller: leader {now.leader} epoch {now.leader_epoch}"
            f" partition epoch {now.partition_epoch} isr {list(now.isr)}"
        ]

    def do_publish(self, *brokers: str) -> None:
        self.cluster.publish(*(int(b) for b in brokers))

    def do_deliver(self) -> list[str]:
        """Proposals reach the controller, and its verdicts the leaders."""
        while self.cluster.messages:
            self.cluster.deliver(self.cluster.messages[0])
        return []

    def do_lose(self) -> list[str]:
        lost = len(self.cluster.messages)
        self.cluster.messages.clear()
        return [f"{lost} messages lost"]

    def do_wait(self, duration_ms: str) -> None:
        self.cluster.now_ms += int(duration_ms)

    def do_lag_check(self, broker: str) -> None:
        replica = self.broker(broker)
        assert replica.leader is not None
        replica.carry_out_leader(replica.leader.on_lag_check(self.cluster.now_ms))
        self.cluster._collect(replica)

    def do_crash(self, *brokers: str) -> None:
        for broker in brokers:
            self.cluster.crash(int(broker))

    def do_restart(self, *brokers: str) -> None:
        for broker in brokers:
            self.cluster.restart(int(broker))

    def do_wipe(self, broker: str) -> None:
        """The disk is replaced by an empty one."""
        self.broker(broker).log = MemoryLog()

    def do_settle(self) -> None:
        self.cluster.settle()

    def do_show(self) -> list[str]:
        lines = []
        for broker in self.cluster.brokers.values():
            values = " ".join(f"{value}@{epoch}" for epoch, value in broker.log.entries)
            state = "" if broker.is_alive else " (dead)"
            lines.append(f"{broker.id}{state} [{values}] high_watermark={broker.high_watermark}")
        return lines


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_the_machines_do_what_the_transcript_says(
    path: Path, request: pytest.FixtureRequest
) -> None:
    script = path.read_text()
    transcript = play(script, Stage())
    if request.config.getoption("--rewrite"):
        path.write_text(transcript)
    assert transcript == script or request.config.getoption("--rewrite")
