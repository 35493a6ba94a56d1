"""librdkafka and our clients with tokens of an issuer: how they get them, and log in again."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest

from minikafka import Admin, Consumer, NewTopic, Producer
from minikafka.client.config import CommonSettings
from minikafka.security.token_urls import ALLOWED_URLS

from ..security.certificates import authority
from ..security.issuer import token
from ..support.token_server import Answer, TokenServer, token_server
from . import test_confluent
from .payloads import PARTITIONS, by_partition, payloads
from .secured import AUDIENCE, PLAIN, TOKENS, Secured

pytestmark = pytest.mark.slow

LIVES_S = 600
AGAIN = 2
"""A client goes on until it has logged in so often on an open connection."""
WITHIN_S = 40


def bearer(lives_s: int = LIVES_S) -> str:
    now_s = int(time.time())
    return token({"sub": "alice", "aud": AUDIENCE, "iat": now_s, "exp": now_s + lives_s})


@pytest.fixture
def issuer() -> Iterator[TokenServer]:
    with token_server() as server:
        server.answers["/token"] = Answer(json.dumps({"access_token": bearer()}).encode())
        yield server


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    node: pytest.Item = request.node
    return node.name


@pytest.fixture
def here(secured: Secured, topic: str) -> str:
    """Make the test's topic, and return the address of the listener with tokens."""
    with Admin(secured.addresses[PLAIN]) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    return secured.addresses[TOKENS]


def librdkafka(here: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": here,
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": authority().certificate_pem,
        "sasl.mechanisms": "OAUTHBEARER",
    }


def ours(secured: Secured) -> CommonSettings:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": secured.ca,
        "sasl_mechanism": "OAUTHBEARER",
    }


def send_past_sessions(secured: Secured, send: Callable[[int], object]) -> int:
    """Send one record after another while sessions end; return how many there are."""
    (_, before), sent = secured.logins(TOKENS), 0
    deadline = time.monotonic() + WITHIN_S
    while secured.logins(TOKENS)[1] < before + AGAIN:
        assert time.monotonic() < deadline, f"no {AGAIN} logins on open connections"
        for _ in range(20):
            send(sent)
            sent += 1
    return sent


def test_librdkafka_with_tokens_of_an_endpoint(
    secured: Secured, here: str, topic: str, issuer: TokenServer
) -> None:
    sent = payloads(seed=39)
    own = librdkafka(here) | {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "reports",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.token.endpoint.url": issuer.url("/token"),
    }
    test_confluent.produce(secured.cluster, topic, sent, acks="all", **own)
    found = test_confluent.consume(secured.cluster, topic, len(sent), **own)
    assert found == by_partition(sent)
    assert {each.client for each in issuer.asked} == {"reports:secret"}


def test_librdkafka_logs_in_again_with_new_tokens(secured: Secured, here: str, topic: str) -> None:
    """A function of the program gives them; no error reaches it when sessions end."""
    given: list[str] = []
    errors: list[object] = []

    def give(_: str) -> tuple[str, float]:
        given.append(bearer())
        return given[-1], time.time() + 1

    def on_delivery(error: object, _: Any) -> None:
        if error is not None:
            errors.append(error)

    def send(number: int) -> None:
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=on_delivery)
        assert producer.flush(20) == 0

    own = librdkafka(here) | {"error_cb": errors.append}
    own["oauth_cb"] = give
    producer = confluent_kafka.Producer(own)
    sent = send_past_sessions(secured, send)
    assert errors == []
    assert len(given) > 1
    plain = {"bootstrap.servers": secured.addresses[PLAIN]}
    found = test_confluent.consume(secured.cluster, topic, sent, **plain)
    assert [each.value for each in found[0]] == [b"%d" % number for number in range(sent)]


def test_our_clients_with_tokens(
    secured: Secured,
    here: str,
    topic: str,
    issuer: TokenServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The producer's tokens end while it sends; the consumer asks the endpoint for its own."""
    by_function: CommonSettings = {
        **ours(secured),
        "sasl_oauth_token_provider": lambda: bearer(3),
    }
    by_endpoint: CommonSettings = {
        **ours(secured),
        "sasl_oauthbearer_token_endpoint_url": issuer.url("/token"),
        "sasl_oauthbearer_client_credentials_client_id": "reports",
        "sasl_oauthbearer_client_credentials_client_secret": "secret",
    }
    with Producer(here, **by_function) as producer:
        sent = send_past_sessions(
            secured, lambda number: producer.send(topic, b"%d" % number).result(20)
        )
    monkeypatch.setenv(ALLOWED_URLS, issuer.url("/token"))
    with Consumer(here, auto_offset_reset="earliest", **by_endpoint) as consumer:
        consumer.subscribe([topic])
        found, deadline = 0, time.monotonic() + WITHIN_S
        while found < sent and time.monotonic() < deadline:
            found += len(consumer.poll(timeout_ms=1000))
    assert found == sent
    assert {each.client for each in issuer.asked} == {"reports:secret"}
