"""The login of a client by OAUTHBEARER: where its tokens come from, as its settings say.

A token comes from a function of the program, from a file, from a token endpoint by the client's own
credentials (RFC 6749, 4.4), or it is one without a signature, for trying things out. Nothing is
fetched here.
"""

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import quote_plus, urlencode

from ..token_urls import TokenUrl
from .bearer_tokens import TIME_MAX_S, object_in
from .errors import SaslError

TokenProvider = Callable[[], str | Awaitable[str]]
"""A function that returns a token, or awaits one. It must not block."""
UNSECURED_MS: Final = 3_600_000
"""The milliseconds for which a token without a signature is good."""
_ERROR_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """The credentials of a client at a token endpoint."""

    client_id: str
    secret: str = field(repr=False)
    scope: str | None = None
    is_encoded: bool = False
    """True if id and secret are URL-encoded in the header, as RFC 6749 asks (2.3.1)."""

    def headers(self) -> dict[str, str]:
        """Return the headers by which the client proves itself to the endpoint."""
        parts = (self.client_id, self.secret)
        text = ":".join(map(quote_plus, parts) if self.is_encoded else parts)
        return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}

    def form(self) -> bytes:
        """Return the body of the request for a token."""
        fields = {"grant_type": "client_credentials"}
        if self.scope is not None:
            fields["scope"] = self.scope
        return urlencode(fields).encode()


@dataclass(frozen=True, slots=True)
class BearerLogin:
    """The place from which tokens come; exactly one is given."""

    provider: TokenProvider | None = None
    url: TokenUrl | None = None
    """A file with a token, or a token endpoint, which needs credentials."""
    credentials: ClientCredentials | None = None
    claims: Mapping[str, str] | None = None
    """The claims of tokens without a signature."""
    extensions: tuple[tuple[str, str], ...] = ()
    """The names and values that are sent with the token (KIP-342)."""
    trust: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The settings of TLS for the endpoint; without any the system's trust counts."""


class Issued(NamedTuple):
    """A token, and how long it may be used again."""

    token: str
    rest_ms: int | None
    """Milliseconds until it expires; None if that is not known."""


def read_answer(answer: bytes, now_ms: int) -> Issued:
    """Read the answer of a token endpoint. Raise SaslError if it has no token."""
    found = object_in(answer) or {}
    token = found.get("access_token") or found.get("id_token")
    if not isinstance(token, str) or not token:
        raise SaslError("the token endpoint's answer has no access_token")
    rest_ms = rest_of(token, now_ms)
    seconds = found.get("expires_in")
    if rest_ms is None and isinstance(seconds, int) and 0 < seconds <= TIME_MAX_S:
        rest_ms = seconds * 1000
    return Issued(token, rest_ms)


def read_refusal(status: int, body: bytes) -> str:
    """Return what a token endpoint says of a request that it refused (RFC 6749, 5.2)."""
    found = object_in(body) or {}
    said = [found[key] for key in ("error", "error_description") if isinstance(found.get(key), str)]
    reason = repr(": ".join(said)[:_ERROR_MAX]) if said else "no reason"
    return f"the token endpoint answered {status} and gave {reason}"


def rest_of(token: str, now_ms: int) -> int | None:
    """Return the milliseconds until a JWT expires; None for a token that does not say it."""
    parts = token.split(".")
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (IndexError, ValueError):
        return None
    expires_s = (object_in(payload) or {}).get("exp")
    if not isinstance(expires_s, (int, float)) or not 0 <= expires_s <= TIME_MAX_S:
        return None
    return int(expires_s * 1000) - now_ms


def unsecured_token(claims: Mapping[str, str], now_ms: int) -> str:
    """Return a token without a signature that has these claims, good for an hour."""
    times = {"iat": now_ms // 1000, "exp": (now_ms + UNSECURED_MS) // 1000}
    return f"{_segment({'alg': 'none'})}.{_segment({**claims, **times})}."


def _segment(value: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
