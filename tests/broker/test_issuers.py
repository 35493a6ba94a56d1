"""The keys of issuers: read before a broker serves, renewed without a login that waits for them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from minikafka.broker.admission.issuers import EARLY_MS, Issuers
from minikafka.client.net.web import ANSWER_BYTES_MAX
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from minikafka.protocol.messages.sasl_handshake import SaslHandshakeRequest
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.principal import user
from minikafka.security.sasl.bearer_tokens import TokenRules
from minikafka.security.sasl.oauth_settings import UNSECURED, KeySource, TokenChecks
from minikafka.security.sasl.oauthbearer import INVALID
from minikafka.security.sasl.replies import Accepted, Challenge
from minikafka.security.token_urls import ALLOWED_FILES, ALLOWED_URLS, parse_url

from ..security.issuer import CLAIMS, NOW_S, entry, published, rsa_key, token, unsecured
from ..support.token_server import Answer, TokenServer, token_server
from .conftest import MakeBroker
from .edge_support import FakeBroker

DAY_MS = 86_400_000


class Clock(SystemRuntime):
    """The real network and files, and a time that the test sets."""

    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return NOW_S * 1000


@pytest.fixture
def runtime() -> Iterator[Clock]:
    made = Clock("test")
    yield made
    made.close()


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    with token_server() as server:
        server.answers["/keys"] = Answer(published())
        monkeypatch.setenv(ALLOWED_URLS, server.url("/keys"))
        yield server


def checks_of(url: str, refresh_ms: int = DAY_MS, backoff_max_ms: int = 1) -> TokenChecks:
    source = KeySource(parse_url("url", url), refresh_ms, 1, backoff_max_ms)
    return TokenChecks(TokenRules(), source)


@asynccontextmanager
async def opened(runtime: Clock, checks: TokenChecks) -> AsyncIterator[Issuers]:
    issuers = Issuers(runtime, [checks, checks])
    await issuers.open()
    try:
        yield issuers
    finally:
        await issuers.close()


def logs_in(issuers: Issuers, checks: TokenChecks, bearer: str) -> bool:
    reply = issuers.server_end(checks).step(f"n,,\x01auth=Bearer {bearer}\x01\x01".encode())
    assert isinstance(reply, (Accepted, Challenge))
    return isinstance(reply, Accepted)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing here tells that it came true
            await asyncio.sleep(0.001)


async def test_s_11_an_unknown_key_has_the_keys_read_early_and_not_often(
    runtime: Clock, issuer: TokenServer
) -> None:
    checks = checks_of(issuer.url("/keys"))
    newer = token(key=rsa_key(2), headers={"kid": "two"})
    async with opened(runtime, checks) as issuers:
        assert len(issuer.asked) == 1
        assert logs_in(issuers, checks, token())
        issuer.answers["/keys"] = Answer(published(entry(rsa_key(2), "two")))
        for _ in range(3):
            assert not logs_in(issuers, checks, newer)
        runtime.now_ms = EARLY_MS
        for _ in range(3):
            assert not logs_in(issuers, checks, newer)
        await until(lambda: logs_in(issuers, checks, newer))
        assert not logs_in(issuers, checks, token())
    assert len(issuer.asked) == 2


async def test_keys_that_cannot_be_read_again_stay(
    runtime: Clock, issuer: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    checks = checks_of(issuer.url("/keys"), refresh_ms=1)
    async with opened(runtime, checks) as issuers:
        issuer.answers["/keys"] = Answer(b"", 503)
        await until(lambda: len(issuer.asked) > 3)
        assert logs_in(issuers, checks, token())
        said = [each for each in caplog.messages if "the keys before are used on" in each]
        assert len(said) == 1
        assert "answered 503" in said[0]
        issuer.answers["/keys"] = Answer(published(entry(rsa_key(2), "two")))
        newer = token(key=rsa_key(2), headers={"kid": "two"})
        await until(lambda: logs_in(issuers, checks, newer))


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(b"{}"), "has no list `keys`"),
        (Answer(published(), 500), "answered 500"),
        (Answer(b"", 302, "http://127.0.0.1:1/keys"), "redirects are not followed"),
        (Answer(b" " * (ANSWER_BYTES_MAX + 1)), "its answer has more than"),
    ],
)
async def test_s_12_a_broker_without_keys_does_not_start(
    runtime: Clock, issuer: TokenServer, answer: Answer, why: str
) -> None:
    issuer.answers["/keys"] = answer
    with pytest.raises(ConfigError, match=why) as caught:
        await Issuers(runtime, [checks_of(issuer.url("/keys"))]).open()
    assert caught.value.key == "sasl.oauthbearer.jwks.endpoint.url"
    assert caught.value.value == issuer.url("/keys")


async def test_a_server_that_comes_late_is_waited_for(runtime: Clock, issuer: TokenServer) -> None:
    issuer.answers["/keys"] = Answer(b"", 503)
    checks = checks_of(issuer.url("/keys"), backoff_max_ms=60_000)
    issuers = Issuers(runtime, [checks])
    opening = asyncio.ensure_future(issuers.open())
    await until(lambda: len(issuer.asked) == 2)
    issuer.answers["/keys"] = Answer(published())
    await asyncio.wait_for(opening, 10)
    assert logs_in(issuers, checks, token())
    await issuers.close()


async def test_a_place_that_is_no_server_is_named(
    runtime: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gibberish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\0\0\0\1 no HTTP\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(gibberish, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    monkeypatch.setenv(ALLOWED_URLS, url)
    with pytest.raises(ConfigError, match="is no HTTP server"):
        await Issuers(runtime, [checks_of(url)]).open()
    server.close()
    await server.wait_closed()
    with pytest.raises(ConfigError, match=r"refused|Connect call failed"):
        await Issuers(runtime, [checks_of(url)]).open()


async def test_keys_of_a_file(
    runtime: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "keys.json"
    checks = checks_of(f"file://{path}")
    with pytest.raises(ConfigError, match="is not allowed"):
        Issuers(runtime, [checks])
    monkeypatch.setenv(ALLOWED_FILES, str(path))
    for content, mode, why in (
        (None, 0o600, "No such file"),
        (b"{}", 0o602, "everybody may write it"),
        (b" " * (1 << 20), 0o600, "or more"),
        (b"{}", 0o600, "no list"),
    ):
        if content is not None:
            path.write_bytes(content)
            path.chmod(mode)
        with pytest.raises(ConfigError, match=why):
            await Issuers(runtime, [checks]).open()
    path.write_bytes(published())
    async with opened(runtime, checks) as issuers:
        assert logs_in(issuers, checks, token())


def locked(make_broker: MakeBroker, **settings: str) -> FakeBroker:
    return make_broker(
        listeners="PLAINTEXT://h:1,LOCKED://h:2",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,LOCKED:SASL_PLAINTEXT",
        sasl_enabled_mechanisms="OAUTHBEARER",
        connection_failed_authentication_delay_ms="0",
        **settings,
    )


async def test_a_connection_logs_in_by_a_token(
    make_broker: MakeBroker, issuer: TokenServer, caplog: pytest.LogCaptureFixture
) -> None:
    broker = locked(make_broker, sasl_oauthbearer_jwks_endpoint_url=issuer.url("/keys"))
    assert broker.edge.logins is not None
    await broker.edge.logins.issuers.open()
    now_s = broker.runtime.wall_ms() // 1000
    good = token({"sub": "alice", "iat": now_s, "exp": now_s + 60})
    client = broker.connect("LOCKED")
    client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    first = f"n,,\x01auth=Bearer {good}\x01\x01".encode()
    answer = client.ask(SaslAuthenticateRequest(auth_bytes=first), 2)
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert 50_000 < answer.session_lifetime_ms <= 60_000
    assert client.connection.session.principal == user("alice")

    caplog.set_level(logging.INFO)
    other = broker.connect("LOCKED")
    other.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    bad = f"n,,\x01auth=Bearer {unsecured(CLAIMS)}\x01\x01".encode()
    told = other.ask(SaslAuthenticateRequest(auth_bytes=bad), 2)
    assert (told.error_code, json.loads(told.auth_bytes)) == (0, {"status": "invalid_token"})
    other.send(SaslAuthenticateRequest(auth_bytes=b"\x01"), 2)
    async with asyncio.timeout(10):
        await other.transport.closed.wait()
    (last,) = other.responses()
    assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert last.error_message == INVALID
    assert any("its algorithm is 'none'" in each for each in caplog.messages)
    await broker.edge.logins.issuers.close()


async def test_a_token_without_a_signature_logs_in_where_it_is_wanted(
    make_broker: MakeBroker,
) -> None:
    handler = "listener_name_locked_oauthbearer_sasl_server_callback_handler_class"
    broker = locked(make_broker, **{handler: UNSECURED})
    now_s = broker.runtime.wall_ms() // 1000
    client = broker.connect("LOCKED")
    client.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)
    made = unsecured({"sub": "alice", "iat": now_s, "exp": now_s + 60})
    first = f"n,,\x01auth=Bearer {made}\x01\x01".encode()
    assert client.ask(SaslAuthenticateRequest(auth_bytes=first), 2).error_code == 0
    assert client.connection.session.principal == user("alice")
