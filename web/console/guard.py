"""Protects the console from other sites: checks Host, Origin and token, limits what pages load.

A page of another site can neither read the console (its Host is checked, against DNS rebinding) nor
change anything through a visitor's browser (Origin is checked, and a token that only our pages
carry).
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from ..hosts import LOOPBACK, host_name

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""The content security policy: pages load scripts and styles from our own files only, so that text
from a cluster is never run."""
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With no-referrer a browser hides the Origin of our own forms, too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
READING: Final = ("GET", "HEAD")


class Guard:
    """ASGI middleware that passes a request to `app`, or refuses it with a sentence."""

    def __init__(self, app: App, hosts: tuple[str, ...]) -> None:
        """Accept these names in the Host header, beside those of the loopback."""
        self._app = app
        self._hosts = (*LOOPBACK, *(host.lower() for host in hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; every response carries the headers of `HEADERS`."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return None

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if not scope["path"].startswith("/static/"):
                    headers["Cache-Control"] = "no-store"
            await send(message)

        why = self._refusal(scope["method"], Headers(scope=scope))
        answer = self._app if why is None else PlainTextResponse(why + "\n", 403)
        return await answer(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if host_name(f"//{host}") not in self._hosts:
            return (
                f"This console does not answer to the name {host[:100]!r}: "
                "start it with --host-name NAME to have it do so."
            )
        if method in READING:
            return None
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return "A change must come from the console's own pages, this one comes from elsewhere."
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "A change must come from the console's own pages, this one comes from elsewhere."
        return None


def is_token(given: str, token: str) -> bool:
    """True if a form's token equals ours; the comparison takes constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())
