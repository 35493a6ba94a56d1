"""Scripts and transcripts of the quorum's state machine: every message, to be read as prose.

Each `.txt` holds steps: commands, `----`, what was said and what became of it, an empty line.
`--rewrite` writes down what happens now; the diff is the review.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..controller.quorum_lab import Lab
from .transcript import play

SCRIPTS = sorted((Path(__file__).parent / "quorum").glob("*.txt"))


class Play:
    """Carries out one script's commands among some voters."""

    def __init__(self) -> None:
        self.lab = Lab.__new__(Lab)
        self.cut: list[tuple[int, int]] = []
        self.before: dict[int, str] = {}

    def run(self, line: str) -> list[str]:
        name, *options = line.split()
        command: Callable[..., None] = getattr(self, f"do_{name}")
        if name != "voters":
            self.lab.told = []
        command(*options)
        said = self.lab.told or []
        now = {node_id: self.describe(node_id) for node_id in self.lab.hosts}
        changed = [text for node_id, text in now.items() if self.before.get(node_id) != text]
        self.before = now
        return [*said, *changed] or ["nothing changes"]

    def describe(self, node_id: int) -> str:
        host = self.lab.hosts[node_id]
        if host.node is None:
            return f"   {node_id} is down"
        log = ", ".join(f"{value}/{epoch}" for epoch, value in host.log.entries)
        what = f"{host.role} in epoch {host.node.standing.epoch}"
        return f"   {node_id} {what}: [{log}] committed below {host.high_watermark}"

    # Commands.

    def do_voters(self, count: str) -> None:
        """So many voters start at the same time; what they say at once is shown."""
        self.lab = Lab(int(count))
        self.lab.cut = lambda source, target: (source, target) in self.cut
        self.lab.told = []
        self.lab.settle()

    def do_pass(self, milliseconds: str) -> None:
        self.lab.run(int(milliseconds))

    def do_quietly(self, milliseconds: str) -> None:
        """Time passes, and nobody writes down what is said."""
        self.lab.run(int(milliseconds))
        self.lab.told = []

    def do_append(self, value: str) -> None:
        assert self.lab.leader.append(value)
        self.lab.settle()

    def do_kill(self, node_id: str) -> None:
        self.lab.kill(int(node_id))
        self.lab.settle()

    def do_start(self, node_id: str) -> None:
        self.lab.hosts[int(node_id)].start()
        self.lab.settle()

    def do_leave(self, node_id: str) -> None:
        host = self.lab.hosts[int(node_id)]
        assert host.node is not None
        host.take(host.node.on_leaving(self.lab.now_ms))
        self.lab.settle()

    def do_isolate(self, node_id: str) -> None:
        one = int(node_id)
        for other in self.lab.voters:
            self.cut += [(one, other), (other, one)]

    def do_heal(self) -> None:
        self.cut.clear()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_the_transcript_is_what_happens(script: Path, request: pytest.FixtureRequest) -> None:
    before = script.read_text()
    now = play(before, Play())
    if request.config.getoption("--rewrite"):
        script.write_text(now)
    assert now == before
