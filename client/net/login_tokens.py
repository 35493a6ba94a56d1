"""The tokens of one client: got when a login needs one, and used again while they are young.

What is fetched is fetched once for all connections that wait for it. A token that a broker refused
is not shown again.
"""

import asyncio
import inspect
from typing import Final

from ...runtime.config import from_mapping
from ...runtime.errors import ConfigError
from ...runtime.runtime import Runtime
from ...security.sasl.bearer_login import (
    BearerLogin,
    Issued,
    read_answer,
    read_refusal,
    rest_of,
    unsecured_token,
)
from ...security.sasl.bearer_tokens import TOKEN_MAX
from ...security.sasl.errors import NoToken, SaslError
from ...security.sasl.oauthbearer import OAuthBearerClient
from ...security.small_file import READ, WRITE, read_small
from ...security.tls import ClientTls
from ...security.tls_config import TlsConfig
from ...security.token_urls import TokenUrl, check_allowed
from .web import WITHIN_MS, Refusal, WebError, ask

URL_KEY: Final = "sasl.oauthbearer.token.endpoint.url"
YOUNG: Final = 80
"""The part of a token's life, in percent, for which it is used again, as in Java's clients."""
REFUSING: Final = range(400, 500)
BUSY: Final = (408, 425, 429)
"""The answers of an endpoint in `REFUSING` after which it may be asked again."""


class LoginTokens:
    """The tokens with which all connections of a client log in."""

    def __init__(self, runtime: Runtime, login: BearerLogin) -> None:
        """Raise ConfigError if the place of tokens is not allowed, or a setting of TLS is wrong."""
        self._runtime = runtime
        self._login = login
        self._tls: ClientTls | None = None
        if login.url is not None:
            check_allowed(URL_KEY, login.url)
            if login.url.has_tls:
                self._tls = ClientTls(runtime, from_mapping(TlsConfig, dict(login.trust)))
        self._one = asyncio.Lock()
        self._token: str | None = None
        self._young_until_ms = 0

    async def begin(self) -> OAuthBearerClient:
        """Return the client end of a new login, with a token that is good now."""
        async with self._one:
            token = self._token
            if token is None or self._runtime.monotonic_ms() >= self._young_until_ms:
                token = await self._fresh()
        return OAuthBearerClient(token, self._login.extensions, self._forget)

    def _forget(self) -> None:
        self._token = None

    async def _fresh(self) -> str:
        self._token = None
        issued = await self._issue()
        if issued.rest_ms is not None:
            self._token = issued.token
            young_ms = issued.rest_ms * YOUNG // 100
            self._young_until_ms = self._runtime.monotonic_ms() + young_ms
        return issued.token

    async def _issue(self) -> Issued:
        login, now_ms = self._login, self._runtime.wall_ms()
        if login.claims is not None:
            return Issued(unsecured_token(login.claims, now_ms), None)
        if login.provider is not None:
            token = await self._provided()
            return Issued(token, rest_of(token, now_ms))
        assert login.url is not None
        if login.url.is_file:
            return Issued(self._read(login.url), None)
        return await self._ask(login.url)

    async def _provided(self) -> str:
        assert self._login.provider is not None
        try:
            token = self._login.provider()
            if inspect.isawaitable(token):
                async with asyncio.timeout(WITHIN_MS / 1000):
                    token = await token
        except Exception as error:
            raise NoToken(f"sasl_oauth_token_provider failed: {error!r}") from error
        if not isinstance(token, str):
            raise SaslError(f"sasl_oauth_token_provider gave a {type(token).__name__}, not a str")
        return token.strip()

    def _read(self, url: TokenUrl) -> str:
        """Return the token in a file. It is read for each login, because others write it anew."""
        fs, path = self._runtime.fs, url.target
        try:
            content = read_small(fs, URL_KEY, path, bytes_max=TOKEN_MAX + 1, forbidden=READ | WRITE)
        except ConfigError as error:
            raise NoToken(f"{path}: {error.why}") from None
        return content.decode("ascii", "replace").strip()

    async def _ask(self, url: TokenUrl) -> Issued:
        credentials, tls = self._login.credentials, self._tls
        assert credentials is not None
        context = None if tls is None else tls.context
        try:
            answer = await ask(url, context, credentials.form(), credentials.headers())
        except Refusal as refusal:
            why = f"{url.text}: {read_refusal(refusal.status, refusal.body)}"
            if refusal.status in REFUSING and refusal.status not in BUSY:
                raise SaslError(why) from None
            raise NoToken(why) from None
        except WebError as error:
            raise NoToken(str(error)) from None
        return read_answer(answer, self._runtime.wall_ms())
