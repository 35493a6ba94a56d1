"""Agents: processes that use one client library each, and carry out commands of the tests.

A test says {"op": "produce", ...} on the agent's standard input and gets one line of JSON back;
what happens by itself in between (an assignment, records) comes as lines with "event". So the same
test runs for every client, in whatever language; and a member of a group can be killed like any
process.
"""

import json
import subprocess
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from . import javascript
from .clients import JAVASCRIPT

REPLY_WITHIN_S = 40.0


class Refused(Exception):
    """The error of the client library, with the protocol's name of the error if it has one."""

    def __init__(self, client: str, op: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{client}: {op}: {error['name']} ({error['code']}): {error['text']}")
        self.code: int | None = error["code"]
        self.name: str = error["name"]


class Record(NamedTuple):
    """A record as every client knows it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 0

    def as_json(self) -> dict[str, Any]:
        """Give what an agent reads."""
        return {
            "p": self.partition,
            "k": _text(self.key),
            "v": _text(self.value),
            "h": [[name, _text(value)] for name, value in self.headers],
            "t": self.timestamp_ms,
        }


def record_of(found: Mapping[str, Any]) -> Record:
    """Read what an agent wrote."""
    headers = tuple((name, _bytes(value) or b"") for name, value in found["h"])
    return Record(found["p"], _bytes(found["k"]), _bytes(found["v"]), headers, found["t"])


class Agent:
    """One process that uses one client library."""

    def __init__(self, client: str, bootstrap: str, number: int) -> None:
        self.client = client
        self.bootstrap = bootstrap
        self.security: Mapping[str, str] = {}
        """How it is let in, in the words of `agents/base.py`; nothing for plain text."""
        self.log: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._replies: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            _command(client),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=read, name=f"{client}-{number}", daemon=True)
            for read in (self._read_lines, self._read_log)
        ]
        for reader in self._readers:
            reader.start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def tell(self, op: str, **arguments: Any) -> None:
        """Have something begun; `answer` waits for it."""
        assert self._process.stdin is not None
        assert self.is_running, f"{self.client} ended before {op}:\n" + "\n".join(self.log[-30:])
        place = {"bootstrap": self.bootstrap, "security": {**self.security}}
        line = json.dumps({"op": op, **place, **arguments})
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def answer(self, op: str, within_s: float = REPLY_WITHIN_S) -> Any:
        """Wait for the answer to what was told; Refused where the client raised."""
        reply = self._wait(lambda: self._replies.pop(0) if self._replies else None, op, within_s)
        if "error" in reply:
            raise Refused(self.client, op, reply["error"])
        return reply["ok"]

    def ask(self, op: str, **arguments: Any) -> Any:
        """Have something done."""
        self.tell(op, **arguments)
        return self.answer(op)

    def produce(self, topic: str, records: Iterable[Record], **settings: Any) -> list[list[int]]:
        """Produce records, and return the partition and offset of each."""
        found: list[list[int]] = self.ask(
            "produce", topic=topic, records=[one.as_json() for one in records], **settings
        )
        return found

    def consume(self, topic: str, count: int, **settings: Any) -> list[Record]:
        """Read a topic from its beginning until `count` records have come."""
        return [record_of(one) for one in self.ask("consume", topic=topic, count=count, **settings)]

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Give what has happened so far."""
        with self._changed:
            return [event for event in self._events if event["event"] == kind]

    def wait_for(self, what: str, probe: "Callable[[Agent], Any]", within_s: float = 30.0) -> Any:
        """Wait until what has happened satisfies `probe`."""
        return self._wait(lambda: probe(self), what, within_s)

    def kill(self) -> None:
        """kill -9; what it said before is kept, what it held is closed."""
        self._process.kill()
        self._process.wait()
        for reader in self._readers:
            reader.join(5)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def reset(self) -> None:
        """Forget a test."""
        with self._changed:
            self._events.clear()

    def _wait(self, probe: Callable[[], Any], what: str, within_s: float) -> Any:
        deadline = time.monotonic() + within_s
        with self._changed:
            while not (found := probe()):
                left = deadline - time.monotonic()
                words = "\n".join([*self.log[-20:], *map(str, self._events[-10:])])
                assert self.is_running, f"{self.client} ended ({what}):\n{words}"
                assert left > 0, f"{self.client}: no {what} within {within_s} s:\n{words}"
                self._changed.wait(min(left, 0.5))
        return found

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.startswith("{"):
                self.log.append(line.rstrip())
                continue
            found = json.loads(line)
            with self._changed:
                (self._events if "event" in found else self._replies).append(found)
                self._changed.notify_all()

    def _read_log(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.log.append(line.rstrip())


def end_of(agent: Agent, topic: str) -> int:
    """Ask for the end of a topic's only partition."""
    ((_, end),) = agent.ask("ends", topic=topic, partitions=1)
    return int(end)


class Agents:
    """Agents of every client; those that have done their work are taken again."""

    def __init__(self) -> None:
        self._all: list[Agent] = []
        self._idle: dict[str, list[Agent]] = {}

    def __enter__(self) -> "Agents":
        return self

    def __exit__(self, *_: object) -> None:
        for agent in self._all:
            agent.kill()

    @contextmanager
    def taken(self, client: str, bootstrap: str, count: int = 1) -> Iterator[list[Agent]]:
        """Lend agents to a test."""
        idle = self._idle.setdefault(client, [])
        lent = [idle.pop() if idle else self._started(client, bootstrap) for _ in range(count)]
        for agent in lent:
            agent.bootstrap = bootstrap
            agent.security = {}
        try:
            yield lent
            for agent in lent:
                if agent.is_running:
                    agent.ask("reset")
                    agent.reset()
                    idle.append(agent)
        finally:
            for agent in lent:
                if agent not in idle:
                    agent.kill()

    def _started(self, client: str, bootstrap: str) -> Agent:
        agent = Agent(client, bootstrap, len(self._all))
        self._all.append(agent)
        return agent


def _command(client: str) -> list[str]:
    if client in JAVASCRIPT:
        return javascript.command(client)
    module = client.replace("-", "_")
    root = Path(__file__).parents[2]
    code = (
        f"import sys; sys.path.insert(0, {str(root)!r}); "
        f"from tests.compat.agents.{module}_agent import main; main()"
    )
    return [sys.executable, "-W", "ignore", "-c", code]


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
