"""What agents in Python share: one line of JSON in, one line out; events in between."""

import json
import logging
import sys
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

Place = tuple[str, int]
LOOK_MS = 1000
"""Milliseconds for which a client tries to be let in, if it can be told."""
_writing = threading.Lock()
_out = open(1, "wb", closefd=False)  # noqa: SIM115
"""Buffered, whatever PYTHONUNBUFFERED says: unbuffered streams lose the rest of a short write."""


class Sent(NamedTuple):
    """A record to be produced."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    timestamp_ms: int


def security_of(request: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Give the settings of a client that is let in: `names` has what it calls each of these.

    protocol: as in security.protocol. ca: file of authorities. own: file of a certificate and its
    key. mechanism, user and password: of a login by SASL.
    """
    how = request["security"]
    return {name: how[word] for word in how for name in names[word]}


def records_in(request: Mapping[str, Any]) -> list[Sent]:
    """Read the records of a request."""
    return [
        Sent(
            one["p"],
            data(one["k"]),
            data(one["v"]),
            [(name, data(value) or b"") for name, value in one["h"]],
            one["t"],
        )
        for one in request["records"]
    ]


def record_out(record: Sent, topic: str, offset: int) -> dict[str, Any]:
    """Write a record that was consumed."""
    return {
        "topic": topic,
        "o": offset,
        "p": record.partition,
        "k": text(record.key),
        "v": text(record.value),
        "h": [[name, text(value)] for name, value in record.headers],
        "t": record.timestamp_ms,
    }


def data(value: str | None) -> bytes | None:
    """Bytes of their text."""
    return None if value is None else b64decode(value)


def text(value: bytes | None) -> str | None:
    """Text of bytes."""
    return None if value is None else b64encode(bytes(value)).decode()


def say(line: Mapping[str, Any]) -> None:
    """Write one line; from any thread."""
    with _writing:
        _out.write(json.dumps(line).encode() + b"\n")
        _out.flush()


def tell_assigned(places: Iterable[Place]) -> None:
    """Tell everything that is assigned now."""
    say({"event": "assigned", "places": [list(place) for place in sorted(places)]})


def tell_records(records: list[dict[str, Any]]) -> None:
    """Tell what a member of a group has received."""
    say({"event": "records", "records": records})


@contextmanager
def reasons(logger: str) -> Iterator[None]:
    """Put what a client's logger says into its error, which does not say why."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger(logger).addHandler(handler)
    try:
        yield
    except Exception as error:
        raise RuntimeError("; ".join([str(error), *said])) from error
    finally:
        logging.getLogger(logger).removeHandler(handler)


def failure(code: int | None, error: BaseException) -> dict[str, Any]:
    """Tell what the client raised."""
    return {"error": {"code": code, "name": type(error).__name__, "text": str(error)}}


def lines() -> Iterable[dict[str, Any]]:
    """Requests, until standard input ends."""
    for line in sys.stdin:
        yield json.loads(line)


def serve(ops: Mapping[str, Callable[[dict[str, Any]], Any]], code_of: Callable[..., Any]) -> None:
    """Answer requests one after the other."""
    for request in lines():
        try:
            reply = {"ok": ops[request["op"]](request)}
        except Exception as error:
            reply = failure(code_of(error), error)
        say(reply)
