"""The client processes of a run: two writers and a reader of each kind, one of them often killed.

A client that is killed is followed by another under a new name: what it had under way stays
unknown for ever, as with any client that crashes.
"""

import itertools
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from ..support.cluster import wait_until
from .history import History, read

KINDS = ("ours", "librdkafka")
WRITERS_OF_EACH = 2
VALUES_OF_EACH = 10_000_000
ROOT = Path(__file__).parents[2]


@dataclass
class Client:
    """One process, and the position up to which its history was read."""

    role: str
    kind: str
    name: str
    path: Path
    process: "subprocess.Popen[bytes]"
    acknowledged: int = 0
    _seen: int = field(default=0)

    def look(self) -> int:
        """Count the acknowledgements in its history so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._seen)
                fresh = file.read()
            end = fresh.rfind(b"\n") + 1
            self._seen += end
            self.acknowledged += sum(line[:2] == b"a " for line in fresh[:end].splitlines())
        return self.acknowledged


class Crew:
    """All clients of a run."""

    def __init__(self, directory: Path, bootstrap: str, prefix: tuple[str, ...]) -> None:
        """Clients are run by `prefix`, which puts them into a network namespace."""
        directory.mkdir()
        self.directory = directory
        self._bootstrap = bootstrap
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self.clients: list[Client] = []
        self._next_victim = itertools.cycle(range(2 * len(KINDS)))

    def start(self) -> None:
        """Start everybody."""
        for kind in KINDS:
            for _ in range(WRITERS_OF_EACH):
                self._launch("write", kind)
            self._launch("read", kind)

    def crash_one(self) -> None:
        """Kill a writer or a reader in turn, and start a new one in its place."""
        turn = next(self._next_victim)
        role, kind = ("write", "read")[turn // len(KINDS)], KINDS[turn % len(KINDS)]
        victim = next(c for c in self.clients if (c.role, c.kind) == (role, kind))
        victim.process.kill()
        victim.process.wait()
        self._close(victim)
        self._launch(role, kind)

    def wait_for_progress(self, count: int, within_s: float = 60.0) -> None:
        """Wait until every writer had so many more acknowledgements."""
        before = {client.name: client.look() for client in self._writers()}
        wait_until(
            lambda: all(c.look() - before.get(c.name, 0) >= count for c in self._writers()),
            within_s=within_s,
        )

    def stop_writers(self) -> list[str]:
        """Let writers finish what they sent; return the names of those that failed."""
        writers = self._writers()
        for client in writers:
            assert client.process.stdin is not None
            client.process.stdin.close()
        return self._end(writers)

    def finish_readers(self, ends: dict[int, int]) -> list[str]:
        """Let readers read up to these offsets; return the names of those that failed."""
        text = " ".join(f"{partition}:{end}" for partition, end in ends.items()) + "\n"
        readers = list(self.clients)
        for client in readers:
            assert client.process.stdin is not None
            client.process.stdin.write(text.encode())
            client.process.stdin.close()
        return self._end(readers)

    def history(self) -> History:
        """Everything that clients wrote down."""
        return read(self.directory)

    def kill(self) -> None:
        """End whoever is left."""
        for client in list(self.clients):
            client.process.kill()
            client.process.wait()
            self._close(client)

    def _writers(self) -> list[Client]:
        return [client for client in self.clients if client.role == "write"]

    def _launch(self, role: str, kind: str) -> None:
        number = next(self._numbers)
        name = f"{kind}-{role}-{number}"
        path = self.directory / f"{name}.history"
        command = [*self._prefix, sys.executable, "-m", "tests.chaos.client", role, kind, name]
        command += [str(path), self._bootstrap]
        if role == "write":
            command.append(str(number * VALUES_OF_EACH))
        with (self.directory / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT
            )
        self.clients.append(Client(role, kind, name, path, process))

    def _end(self, clients: list[Client]) -> list[str]:
        late: list[str] = []
        for client in clients:
            try:
                if client.process.wait(150) != 0:
                    late.append(f"{client.name} ended with {client.process.returncode}")
            except subprocess.TimeoutExpired:
                late.append(f"{client.name} did not end")
                client.process.kill()
                client.process.wait()
            self._close(client)
        return late

    def _close(self, client: Client) -> None:
        if client.process.stdin is not None and not client.process.stdin.closed:
            client.process.stdin.close()
        self.clients.remove(client)
