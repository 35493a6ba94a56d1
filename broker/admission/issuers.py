"""The keys of the issuers whose tokens a broker accepts, read before it serves and regularly after.

No login waits for the keys. A token with an unknown key is refused, and causes the keys to be read
early, at most once in EARLY_MS. One task reads the keys of each place (URL or file). If the keys
cannot be read, the earlier ones stay in use.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from ...client.net.web import WebError, ask
from ...runtime.config import from_mapping
from ...runtime.errors import ConfigError
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ...runtime.waiting import happens_within
from ...security.sasl.bearer_tokens import Claims, check_of, signed_claims, unsecured_claims
from ...security.sasl.errors import TokenError, UnknownKey
from ...security.sasl.oauth_settings import JWKS, KeySource, TokenChecks
from ...security.sasl.oauthbearer import OAuthBearerServer
from ...security.sasl.signing_keys import SigningKeys
from ...security.small_file import WRITE, read_small
from ...security.tls import ClientTls
from ...security.tls_config import TlsConfig
from ...security.token_urls import check_allowed

EARLY_MS: Final = 10_000
"""The least milliseconds between a reading of the keys and one that an unknown key causes."""
FILE_BYTES_MAX: Final = 1 << 20

log = logging.getLogger(__name__)


class IssuerKeys:
    """The keys of one place (URL or file), as they were when they were last read."""

    def __init__(self, runtime: Runtime, source: KeySource) -> None:
        """Raise ConfigError if the place is not allowed, or if a setting of its TLS is wrong."""
        check_allowed(JWKS, source.url)
        if source.url.scheme == "http":
            text = "%s=%s: whoever can change what is sent there can log in as anybody"
            log.warning(text, JWKS, source.url.text)
        self._runtime = runtime
        self._source = source
        trust = from_mapping(TlsConfig, dict(source.trust))
        self._tls = ClientTls(runtime, trust) if source.url.has_tls else None
        self._keys = SigningKeys(())
        self._is_wanted = asyncio.Event()
        self._read_ms = 0
        self._said = ""
        self._task = OwnedTask(runtime, f"keys of {source.url.text}")

    def claims_of(self, token: str) -> Claims:
        """Return the claims of a token; raise TokenError if its signature is not good."""
        try:
            return signed_claims(token, self._keys)
        except UnknownKey:
            if self._runtime.monotonic_ms() - self._read_ms >= EARLY_MS:
                self._is_wanted.set()
            raise

    async def open(self) -> None:
        """Read the keys for the first time, and start the task that reads them again.

        Raise ConfigError if the keys cannot be read. Before that, reading is retried until all
        waits together are longer than `backoff_max_ms` of the source.
        """
        source, waited_ms = self._source, 0
        backoff_ms = source.backoff_ms
        while True:
            try:
                await self._read()
                break
            except (WebError, TokenError) as error:
                waited_ms += backoff_ms
                if waited_ms > source.backoff_max_ms:
                    raise ConfigError(JWKS, source.url.text, _reason(error, source)) from None
            await asyncio.sleep(backoff_ms / 1000)
            backoff_ms *= 2
        self._task.start(self._run)

    async def close(self) -> None:
        """Stop reading."""
        await self._task.stop()

    async def _run(self) -> None:
        source = self._source
        wait_ms = source.refresh_ms
        backoff_ms = source.backoff_ms
        while True:
            await happens_within(self._is_wanted, wait_ms)
            try:
                await self._read()
                wait_ms, backoff_ms, self._said = source.refresh_ms, source.backoff_ms, ""
            except (WebError, TokenError) as error:
                self._say(_reason(error, source))
                wait_ms, backoff_ms = backoff_ms, min(2 * backoff_ms, source.backoff_max_ms)
            self._is_wanted.clear()

    def _say(self, why: str) -> None:
        if why != self._said:
            self._said = why
            log.error("%s=%s: %s; the keys before are used on", JWKS, self._source.url.text, why)

    async def _read(self) -> None:
        url, tls = self._source.url, self._tls
        self._read_ms = self._runtime.monotonic_ms()
        if url.is_file:
            content = self._read_file(url.target)
        else:
            content = await ask(url, None if tls is None else tls.context)
        self._keys = SigningKeys.parse(content)

    def _read_file(self, path: str) -> bytes:
        fs = self._runtime.fs
        try:
            return read_small(fs, JWKS, path, bytes_max=FILE_BYTES_MAX, forbidden=WRITE)
        except ConfigError as error:
            raise TokenError(error.why) from None


class Issuers:
    """The issuers of tokens for all listeners of a broker."""

    def __init__(self, runtime: Runtime, checks: Iterable[TokenChecks]) -> None:
        """Raise ConfigError if keys cannot be read from the place that `checks` name."""
        sources = {each.source: None for each in checks if each.source is not None}
        self._keys: Mapping[KeySource, IssuerKeys] = {
            source: IssuerKeys(runtime, source) for source in sources
        }
        self._wall_ms = runtime.wall_ms

    def server_end(self, checks: TokenChecks) -> OAuthBearerServer:
        """Return the server end of a new login with these checks."""
        source = checks.source
        claims_of = unsecured_claims if source is None else self._keys[source].claims_of
        return OAuthBearerServer(check_of(claims_of, checks.rules, self._wall_ms))

    async def open(self) -> None:
        """Read all keys. Raise ConfigError, which names the issuer, if keys cannot be read."""
        for keys in self._keys.values():
            await keys.open()

    async def close(self) -> None:
        """Stop reading keys."""
        for keys in self._keys.values():
            await keys.close()


def _reason(error: WebError | TokenError, source: KeySource) -> str:
    return str(error).removeprefix(f"{source.url.text}: ")
