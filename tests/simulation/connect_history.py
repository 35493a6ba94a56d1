"""Records what workers of a Connect cluster run, and what its sources write; checks both.

Pure. It is notified in the order of time. A life is one process of a worker, from its start to its
end or death.

    a task runs   in a life from `on_started` to `on_stopped`, or until the life ends
    a partition   of a source, named in a task's configuration, is read by one task at a time
    a source      writes the numbers 0, 1, 2, ... of each of its partitions, each once
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from minikafka.connect.states import TaskId

Life = str


@dataclass(slots=True)
class ConnectHistory:
    """What ran where, and each contradiction as a sentence."""

    running: dict[TaskId, dict[Life, Mapping[str, str]]] = field(default_factory=dict)
    """Who runs each task and connector (task -1), with the configuration of it."""
    starts: Counter[TaskId] = field(default_factory=Counter)
    moves: int = 0
    """The number of times that something was started after another life had it."""
    found: list[str] = field(default_factory=list)
    is_frozen: Callable[[Life], bool] = lambda life: False
    """Returns True for a life whose process is paused: it cannot stop anything, nor work."""
    _excused: dict[tuple[Life, TaskId], None] = field(default_factory=dict)
    """What lives ran that were paused; they stop it only after they have woken up."""
    _last: dict[TaskId, Life] = field(default_factory=dict)

    def on_started(self, life: Life, item: TaskId, config: Mapping[str, str]) -> None:
        """Note that a life begins to run something."""
        here = self.running.setdefault(item, {})
        for other in here:
            if self._counts(other, item):
                self.found.append(f"{item} begins in {life} and runs in {other}")
        for part in _parts(config):
            for reader, configs in self.running.items():
                for other, theirs in configs.items():
                    if part in _parts(theirs) and self._counts(other, reader):
                        self.found.append(f"{item} in {life} reads {part}, as {reader} in {other}")
        here[life] = config
        self.starts[item] += 1
        if self._last.get(item, life) != life:
            self.moves += 1
        self._last[item] = life

    def _counts(self, life: Life, item: TaskId) -> bool:
        return not self.is_frozen(life) and (life, item) not in self._excused

    def on_stopped(self, life: Life, item: TaskId) -> None:
        """Note that it runs there no more."""
        self.running.get(item, {}).pop(life, None)
        self._excused.pop((life, item), None)

    def on_paused(self, life: Life) -> None:
        """Note that a life sleeps, perhaps longer than its session lasts."""
        self._excused.update({(life, item): None for item in self.of(life)})

    def lives_of(self, name: str) -> list[Life]:
        """Return the lives of a worker that run something."""
        lives = {life: None for here in self.running.values() for life in here}
        return [life for life in lives if life.partition("/")[0] == name]

    def on_ended(self, life: Life) -> None:
        """Note that a life is over, and so all that it ran."""
        for here in self.running.values():
            here.pop(life, None)

    def of(self, life: Life) -> list[TaskId]:
        """Return what a life runs, sorted."""
        return sorted(item for item, here in self.running.items() if life in here)

    def runs(self) -> dict[TaskId, list[Life]]:
        """Return who runs what."""
        return {item: list(here) for item, here in sorted(self.running.items()) if here}

    def runs_once(self, items: Iterable[TaskId]) -> bool:
        """True if exactly these run, each in one life."""
        runs = self.runs()
        return list(runs) == sorted(items) and all(len(each) == 1 for each in runs.values())


def _parts(config: Mapping[str, str]) -> list[str]:
    return config.get("mine", "").split(",") if "mine" in config else []


def check_output(written: Iterable[bytes]) -> list[str]:
    """Check the values PARTITION:NUMBER of exactly-once sources, in the order of the topic."""
    following: dict[bytes, int] = {}
    for value in written:
        partition, _, text = value.rpartition(b":")
        number, due = int(text), following.get(partition, 0)
        if number < due:
            return [f"duplicate: {value!r} is there again, and {due} was due"]
        if number > due:
            return [f"gap: {value!r} where {due} was due"]
        following[partition] = due + 1
    return []
