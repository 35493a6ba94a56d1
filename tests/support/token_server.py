"""An issuer of tokens on loopback: its keys at /keys, and tokens for clients at /token."""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs


class Answer(NamedTuple):
    """The answer to a request."""

    body: bytes
    status: int = 200
    location: str | None = None


class Asked(NamedTuple):
    """A request that came."""

    path: str
    client: str
    """The id and secret of the client, parted by a colon; empty if it gave none."""
    form: dict[str, str]


class TokenServer:
    """Answers each path with what a test puts there, and notes what was asked."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        self.answers: dict[str, Answer] = {}
        self.asked: list[Asked] = []

    def url(self, path: str) -> str:
        return f"{self.base}{path}"

    def answer(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        return self.answers.get(asked.path, Answer(b"", 404))


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])))

    def _answer(self, body: bytes) -> None:
        form = {key: value[0] for key, value in parse_qs(body.decode()).items()}
        basic = self.headers.get("Authorization", "").removeprefix("Basic ")
        server: Any = self.server
        asked = Asked(self.path, base64.b64decode(basic).decode(), form)
        answer: Answer = server.issuer.answer(asked)
        self.send_response(answer.status)
        if answer.location is not None:
            self.send_header("Location", answer.location)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@contextmanager
def token_server() -> Iterator[TokenServer]:
    """Serve until the block ends."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    issuer = TokenServer(http.server_address[1])
    http.issuer = issuer  # type: ignore[attr-defined]
    thread = threading.Thread(target=http.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield issuer
    finally:
        http.shutdown()
        thread.join(10)
        http.server_close()
