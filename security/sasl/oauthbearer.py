"""OAUTHBEARER (RFC 7628, KIP-255): the client shows a token that it got from elsewhere.

A token is as good as a password until it expires, so this mechanism belongs behind TLS. A server
that refuses a token answers with JSON; the login has failed once the client has answered with one
byte.
"""

import re
from collections.abc import Callable
from typing import Final

from .bearer_tokens import TOKEN_MAX, Proved
from .errors import SaslError, TokenError
from .replies import Accepted, Challenge, Refused, Reply

OAUTHBEARER: Final = "OAUTHBEARER"
SEPARATOR: Final = "\x01"
INVALID: Final = '{"status":"invalid_token"}'
"""The answer to every token that is refused. The reason is for the log of the server alone."""
MALFORMED: Final = (
    f"Authentication failed during authentication due to invalid credentials with SASL mechanism "
    f"{OAUTHBEARER}"
)
OTHER_NAME: Final = (
    "Authentication failed: Client requested an authorization id that is different from the "
    "token's principal name"
)
_MESSAGE_MAX: Final = 2 * TOKEN_MAX
"""The most bytes of the first message: the token, and extensions (KIP-342)."""
_GS2: Final = re.compile(r"n,(?:a=(?P<authorization>(?:[^=,\x00\x01]|=2C|=3D)+))?,")
_PAIR: Final = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7E \t\r\n]+)")
_TOKEN: Final = re.compile(r"[-_~+/.A-Za-z0-9]+=*")
_BEARER: Final = re.compile(rf"bearer +(?P<token>{_TOKEN.pattern})", re.IGNORECASE)
_AUTH: Final = "auth"


class OAuthBearerServer:
    """Checks one token."""

    def __init__(self, check: Callable[[str], Proved]) -> None:
        """`check` raises TokenError if the token proves nothing."""
        self._check = check
        self._refused: Refused | None = None

    def step(self, token: bytes) -> Reply:
        """Take the client's message with the token, or its answer to a refusal."""
        if self._refused is not None:
            return self._refused
        first = _read(token)
        if first is None:
            return Refused(MALFORMED, "its first message is malformed")
        authorization_id, bearer = first
        try:
            proved = self._check(bearer)
        except TokenError as error:
            self._refused = Refused(INVALID, str(error))
            return Challenge(INVALID.encode())
        if authorization_id not in ("", proved.name):
            return Refused(OTHER_NAME)
        return Accepted(proved.name, rest_ms=proved.rest_ms)


class OAuthBearerClient:
    """Shows one token."""

    def __init__(
        self, token: str, extensions: tuple[tuple[str, str], ...], on_refused: Callable[[], None]
    ) -> None:
        """Raise SaslError if `token` is malformed. `on_refused` is called if it is refused."""
        if _TOKEN.fullmatch(token) is None:
            raise SaslError("the token is empty, or has characters that a token cannot have")
        pairs = (("auth", f"Bearer {token}"), *extensions)
        text = "".join(f"{key}={value}{SEPARATOR}" for key, value in pairs)
        self._first = f"n,,{SEPARATOR}{text}{SEPARATOR}".encode()
        self._on_refused = on_refused

    def first(self) -> bytes:
        """Return the message with the token."""
        return self._first

    def step(self, token: bytes) -> bytes | None:
        """Take the server's answer: nothing, or a reason, which is acknowledged with one byte."""
        if not token:
            return None
        self._on_refused()
        return SEPARATOR.encode()


def is_extension(key: str, value: str) -> bool:
    """True if a client may send this extension."""
    return key != _AUTH and _PAIR.fullmatch(f"{key}={value}") is not None


def _read(message: bytes) -> tuple[str, str] | None:
    """Return the authorization id and the token of a first message; None if it is malformed."""
    if len(message) > _MESSAGE_MAX:
        return None
    try:
        gs2, *rest = message.decode().split(SEPARATOR)
    except UnicodeDecodeError:
        return None
    begin = _GS2.fullmatch(gs2)
    if begin is None or rest[-2:] != ["", ""]:
        return None
    pairs: dict[str, str] = {}
    for text in rest[:-2]:
        pair = _PAIR.fullmatch(text)
        if pair is None or pair["key"] in pairs:
            return None
        pairs[pair["key"]] = pair["value"]
    bearer = _BEARER.fullmatch(pairs.get(_AUTH, ""))
    if bearer is None:
        return None
    name = (begin["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return name, bearer["token"]
