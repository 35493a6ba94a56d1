"""The tokens of one client: where they come from, when they are used again, and what is refused."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.client.config import AdminConfig, configured
from minikafka.client.net.login_tokens import LoginTokens
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.sasl.errors import NoToken, SaslError
from minikafka.security.token_urls import ALLOWED_FILES, ALLOWED_URLS

from ..security.issuer import NOW_S, unsecured
from ..support.token_server import Answer, TokenServer, token_server

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
URL = "sasl.oauthbearer.token.endpoint.url"
ID = "sasl.oauthbearer.client.credentials.client.id"
SECRET = "sasl.oauthbearer.client.credentials.client.secret"
OWN = {ID: "reports", SECRET: "hunter2"}


class Clock(SystemRuntime):
    """The real network and files, and a time that the test sets."""

    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return NOW_S * 1000 + self.now_ms


@pytest.fixture
def runtime() -> Iterator[Clock]:
    made = Clock("test")
    yield made
    made.close()


@pytest.fixture
def issuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[TokenServer]:
    with token_server() as server:
        server.answers["/token"] = answer_of("one")
        monkeypatch.setenv(ALLOWED_URLS, server.url("/token"))
        yield server


def answer_of(token: str) -> Answer:
    return Answer(json.dumps({"access_token": token, "expires_in": 100}).encode())


def tokens_of(runtime: Clock, **settings: Any) -> LoginTokens:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", **settings}
    security = configured(AdminConfig, "a:1", given).security.steps(runtime)
    assert security is not None
    assert isinstance(security.tokens, LoginTokens)
    assert security.credentials is None
    return security.tokens


async def shown(tokens: LoginTokens) -> str:
    return (await tokens.begin()).first().decode().split("\x01")[1].removeprefix("auth=Bearer ")


async def test_a_token_is_got_by_the_clients_own_credentials_and_used_while_it_is_young(
    runtime: Clock, issuer: TokenServer
) -> None:
    url = issuer.url("/token")
    tokens = tokens_of(runtime, **{URL: url, **OWN, "sasl.oauthbearer.scope": "kafka"})
    assert await asyncio.gather(*(shown(tokens) for _ in range(3))) == ["one"] * 3
    form = {"grant_type": "client_credentials", "scope": "kafka"}
    assert [(each.client, each.form) for each in issuer.asked] == [("reports:hunter2", form)]
    issuer.answers["/token"] = answer_of("two")
    runtime.now_ms = 79_999
    assert await shown(tokens) == "one"
    runtime.now_ms = 80_000
    assert await shown(tokens) == "two"


async def test_a_token_that_a_broker_refused_is_not_shown_again(
    runtime: Clock, issuer: TokenServer
) -> None:
    tokens = tokens_of(runtime, **{URL: issuer.url("/token"), **OWN})
    end = await tokens.begin()
    issuer.answers["/token"] = answer_of("two")
    assert end.step(b'{"status":"invalid_token"}') == b"\x01"
    assert await shown(tokens) == "two"


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (Answer(b'{"error":"invalid_client"}', 401), SaslError, "gave 'invalid_client'"),
        (Answer(b"", 429), NoToken, "answered 429"),
        (Answer(b"", 503), NoToken, "answered 503"),
        (Answer(b"", 307, "http://127.0.0.1:1/"), NoToken, "redirects are not followed"),
        (Answer(b"{}"), SaslError, "no access_token"),
        (answer_of("a b"), SaslError, "cannot have"),
    ],
)
async def test_an_endpoint_that_gives_no_token(
    runtime: Clock, issuer: TokenServer, answer: Answer, error: type[Exception], why: str
) -> None:
    issuer.answers["/token"] = answer
    with pytest.raises(error, match=why) as caught:
        await tokens_of(runtime, **{URL: issuer.url("/token"), **OWN}).begin()
    assert "hunter2" not in str(caught.value)


async def test_an_endpoint_or_a_file_must_be_allowed_by_the_environment(
    runtime: Clock, issuer: TokenServer, tmp_path: Path
) -> None:
    for url in (issuer.url("/token?"), f"file://{tmp_path}/token"):
        with pytest.raises(ConfigError, match="the environment variable") as caught:
            tokens_of(runtime, **{URL: url, **OWN})
        assert caught.value.key == URL
    assert issuer.asked == []


async def test_a_file_is_read_for_each_login(
    runtime: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "token"
    monkeypatch.setenv(ALLOWED_FILES, str(path))
    tokens = tokens_of(runtime, **{URL: f"file://{path}"})
    with pytest.raises(NoToken, match="No such file"):
        await tokens.begin()
    path.touch(0o644)
    with pytest.raises(NoToken, match="everybody may read or write it"):
        await tokens.begin()
    path.chmod(0o600)
    for content in ("one\n", "two"):
        path.write_text(content)
        assert await shown(tokens) == content.strip()
    path.write_text("x" * 20_000)
    with pytest.raises(NoToken, match="or more"):
        await tokens.begin()


async def test_a_function_of_the_program_gives_tokens(runtime: Clock) -> None:
    lives = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 10}
    calls: list[object] = []

    async def provide() -> str:
        calls.append(None)
        return unsecured(lives) + "\n"  # as it stands in a file

    tokens = tokens_of(runtime, sasl_oauth_token_provider=provide)
    for now_ms, count in ((0, 1), (7_999, 1), (8_000, 2)):
        runtime.now_ms = now_ms
        assert await shown(tokens) == unsecured(lives)
        assert len(calls) == count


@pytest.mark.parametrize(
    ("provide", "error", "why"),
    [
        (lambda: 1 // 0, NoToken, "failed: ZeroDivisionError"),
        (lambda: None, SaslError, "gave a NoneType"),
        (lambda: b"x", SaslError, "gave a bytes"),
        (lambda: "", SaslError, "is empty"),
    ],
)
async def test_a_function_that_gives_no_token(
    runtime: Clock, provide: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        await tokens_of(runtime, sasl_oauth_token_provider=provide).begin()


async def test_the_text_of_kafkas_login_module_is_understood(
    runtime: Clock, issuer: TokenServer
) -> None:
    text = f'{MODULE} required clientId="reports" clientSecret="hunter2" scope="kafka" '
    given = {URL: issuer.url("/token"), "sasl.jaas.config": text + 'extension_traceId="7";'}
    first = (await tokens_of(runtime, **given).begin()).first()
    assert first == b"n,,\x01auth=Bearer one\x01traceId=7\x01\x01"
    assert (issuer.asked[0].client, issuer.asked[0].form["scope"]) == ("reports:hunter2", "kafka")
    trial = f'{MODULE} required unsecuredLoginStringClaim_sub="alice";'
    made = await shown(tokens_of(runtime, **{"sasl.jaas.config": trial}))
    assert made.endswith(".")


@pytest.mark.parametrize(
    ("settings", "key", "why"),
    [
        ({}, URL, "exactly one of them"),
        ({URL: "https://a/", **OWN, "sasl_oauth_token_provider": str}, URL, "exactly one of them"),
        ({"sasl_oauth_token_provider": "text"}, "sasl_oauth_token_provider", "must be a function"),
        ({URL: "https://a/"}, ID, "is required"),
        ({URL: "https://a/", ID: "a"}, SECRET, "is required"),
        ({URL: "a"}, URL, "must begin with"),
        (
            {URL: "https://a/", **OWN, "sasl.jaas.config": f'{MODULE} required clientId="b";'},
            "sasl.jaas.config",
            "cannot be given together",
        ),
        (
            {"sasl.jaas.config": f'{MODULE} required unsecuredLoginStringClaim_x="b";'},
            "sasl.jaas.config",
            "must give unsecuredLoginStringClaim_sub",
        ),
        (
            {URL: "https://a/", "sasl.jaas.config": f'{MODULE} required extension_auth="b";'},
            "sasl.jaas.config",
            "extension_auth cannot be sent",
        ),
    ],
)
def test_a_login_that_is_not_whole_names_the_key(
    runtime: Clock, settings: dict[str, Any], key: str, why: str
) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        tokens_of(runtime, **settings)
    assert caught.value.key == key
    assert "hunter2" not in str(caught.value)


def test_another_client_of_the_cluster_gets_the_same_function(runtime: Clock) -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    config = configured(AdminConfig, "a:1", {**given, "sasl_oauth_token_provider": str})
    again = configured(AdminConfig, "a:1", config.security.as_arguments())
    assert again.security.sasl_oauth_token_provider is str
