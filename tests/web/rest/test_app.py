"""The application around its handlers: routes and document, errors, hosts, logins, browsers."""

import base64
import json
import re
import sys
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from minikafka.client.admin.admin import Admin
from minikafka.client.errors import Attempt, BootstrapError
from minikafka.client.net.errors import LOG_IN
from minikafka.web.rest.app import application
from minikafka.web.rest.clients import Clients
from minikafka.web.rest.command import rest
from minikafka.web.rest.login import Login
from minikafka.web.rest.openapi import document
from minikafka.web.rest.settings import divided

from ...client.fake_broker import FakeCluster
from .lab import Clock, Proxy, proxy

SASL = {
    "minikafka.rest.authentication": "sasl",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "SCRAM-SHA-512",
}
NOBODY = ["127.0.0.1:1"]


def basic(user: str, password: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


async def test_the_document_names_the_routes_and_nothing_else() -> None:
    async with proxy(NOBODY) as one:
        told = (await one.http.get("/openapi.json")).json()
    assert told == json.loads(json.dumps(document()))
    routed = {
        (re.sub(r":int\}", "}", route.path), method.lower())
        for route in one.app.routes
        for method in route.methods
    }
    listed = {(path, method) for path, of in told["paths"].items() for method in of}
    assert routed == listed | {("/openapi.json", "get")}


def test_every_schema_of_the_document_is_there_and_used() -> None:
    told = document()
    named = re.findall(r"#/components/schemas/(\w+)", json.dumps(told))
    assert {*named} == {*told["components"]["schemas"]}
    assert all(one["summary"].endswith(".") for of in told["paths"].values() for one in of.values())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/no/such/path", 404),
        ("GET", "/v3/no", 404),
        ("GET", "/v3/clusters/c/topics/t/partitions/x", 404),
        ("PUT", "/topics/t", 405),
        ("DELETE", "/v3/clusters/c/brokers/1", 405),
        ("HEAD", "/topics", 405),
    ],
)
async def test_what_is_not_served_is_told_in_the_form_of_errors(
    method: str, path: str, status: int
) -> None:
    async with proxy(NOBODY) as one:
        answer = await one.http.request(method, path)
    assert answer.status_code == status
    if method != "HEAD":
        assert answer.json()["error_code"] == status
    assert ("allow" in answer.headers) == (status == 405)


async def test_another_cluster_is_not_found() -> None:
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        answer = await one.http.get("/v3/clusters/another/topics")
    assert (answer.status_code, answer.json()["error_code"]) == (404, 404)


async def test_where_no_broker_answers_that_is_said_in_time() -> None:
    settings = {"bootstrap.timeout.ms": "50"}
    async with proxy(NOBODY, settings=settings) as one:
        answer = await one.http.get("/topics")
    assert (answer.status_code, answer.json()["error_code"]) == (503, 50302)
    assert "127.0.0.1:1" in answer.json()["message"]


async def test_on_the_loopback_it_answers_to_its_own_names_only() -> None:
    async with proxy(NOBODY) as one:
        app = application(one.desk, ("localhost", "127.0.0.1"))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:1") as http:
            assert (await http.get("/")).status_code == 200
            answer = await http.get("/", headers={"host": "evil.example:1"})
    assert (answer.status_code, answer.json()["error_code"]) == (403, 403)


@pytest.mark.parametrize(
    ("origins", "shown"), [("", None), ("http://a.example", "http://a.example")]
)
async def test_pages_of_others_read_answers_only_if_a_setting_says_so(
    origins: str, shown: str | None
) -> None:
    settings = {"access.control.allow.origin": origins} if origins else {}
    async with proxy(NOBODY, settings=settings) as one:
        answer = await one.http.get("/", headers={"origin": "http://a.example"})
        other = await one.http.get("/", headers={"origin": "http://b.example"})
    assert answer.headers.get("access-control-allow-origin") == shown
    assert "access-control-allow-origin" not in other.headers
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example", 403),
        ("null", 403),
        ("http://[", 403),
        ("http://a.example", 200),
        ("http://one.example:8082", 200),
        (None, 200),
    ],
)
async def test_pages_of_others_change_nothing_unless_a_setting_says_so(
    origin: str | None, status: int
) -> None:
    settings = {"access.control.allow.origin": "http://a.example"}
    async with FakeCluster() as cluster, proxy(cluster.bootstrap, settings=settings) as one:
        # A request that a browser sends without asking first.
        answer = await one.http.post("/consumers/g", headers={"origin": origin} if origin else {})
        assert len(one.desk.instances) == (status == 200)
    assert answer.status_code == status


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Admin]:
    """The admins that were started; the brokers take the password `right` only."""
    made: list[Admin] = []

    async def start(self: Admin) -> Admin:
        security = self.config.security
        if security.sasl_mechanism != "OAUTHBEARER" and security.sasl_password != "right":
            attempt = Attempt("b:1", LOG_IN, "refused")
            raise BootstrapError([attempt])
        made.append(self)
        return self

    async def brokers(self: Admin) -> Any:
        raise BootstrapError([])

    monkeypatch.setattr(Admin, "start", start)
    monkeypatch.setattr(Admin, "describe_cluster", brokers)
    return made


async def ask(one: Proxy, headers: dict[str, str]) -> httpx.Response:
    return await one.http.get("/brokers", headers=headers)


async def test_each_login_asks_the_brokers_as_itself(started: list[Admin]) -> None:
    async with proxy(NOBODY, settings=SASL) as one:
        for _ in range(2):
            await ask(one, basic("alice", "right"))
        await ask(one, basic("bob", "right"))
        await ask(one, {"authorization": "Bearer t0ken"})
        assert len(one.desk.clients) == 3
        wrong = await ask(one, basic("alice", "wrong"))
        nobody = await ask(one, {})
        assert len(one.desk.clients) == 3
    alice, bob, bearer = (one.config.security for one in started)
    assert (alice.sasl_username, alice.sasl_mechanism) == ("alice", "SCRAM-SHA-512")
    assert (bob.sasl_username, bob.sasl_password) == ("bob", "right")
    assert bearer.sasl_oauth_token_provider is not None
    assert bearer.sasl_oauth_token_provider() == "t0ken"
    for answer in (wrong, nobody):
        assert (answer.status_code, answer.json()["error_code"]) == (401, 40101)
        assert answer.headers["www-authenticate"].startswith("Basic")
        assert "wrong" not in answer.text


async def test_clients_are_bounded_and_closed_when_nobody_asks(started: list[Admin]) -> None:
    runtime = Clock("rest")
    settings = divided({**SASL, "bootstrap.servers": "b:1", "minikafka.rest.max.principals": "2"})
    clients = Clients(runtime, settings)
    alice, bob, carol = (Login(name, "right") for name in ("alice", "bob", "carol"))
    async with clients.of(alice) as held:
        await held.admin()
    runtime.later_ms += 1
    async with clients.of(bob) as held:
        await held.admin()
        async with clients.of(carol) as other:
            await other.admin()
            with pytest.raises(Exception, match="all in use"):
                async with clients.of(alice):
                    raise AssertionError("there is no room")
    runtime.later_ms += 300_000
    clients.close_idle(runtime.monotonic_ms())
    assert len(clients) == 0
    await clients.close()
    assert [one.is_closed for one in started] == [True] * 3


def test_the_command_names_the_extra_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minikafka.web.rest.server", None)
    found = CliRunner().invoke(rest, ["--bootstrap-server", "b:1"])
    assert found.exit_code == 1
    assert found.output.startswith("Error: the REST proxy needs its extra: pip install 'minikafka")


def test_the_command_says_what_is_wrong_in_a_line() -> None:
    for flags, words in (
        (["--listen", "here"], "--listen=here: must be HOST:PORT"),
        (["--peers", "rest-2"], "must be http://HOST:PORT"),
        (["--command-property", "acks=7"], "acks=7"),
        (["--command-property", "consumer.instance.timeout.ms=0"], "instance.timeout.ms=0"),
    ):
        found = CliRunner().invoke(rest, ["--bootstrap-server", "b:1", *flags])
        assert found.exit_code != 0
        assert words in str(found.exception or found.output)
