"""A broker with TLS that lets alice in by password, certificate and token; how its clients ask."""

import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID
from prometheus_client.parser import text_string_to_metric_families

from minikafka import (
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Admin,
    ScramChange,
)
from minikafka.security.sasl.oauth_settings import JWKS
from minikafka.security.token_urls import ALLOWED_FILES

from ..security.certificates import Made, authority, make
from ..support.cluster import Cluster, free_ports
from .clients import ALL

Security = dict[str, str]
"""How a client is let in, in the words of `agents/base.py`."""
PASSWORD = "s,e=cret"
SESSION_MS = 1500
CERTIFIED, LOGIN, PLAIN, TOKENS = "CERTIFIED", "LOGIN", "PLAIN", "TOKENS"
AUDIENCE = "kafka"
JAVA = "java"
SHORT = (*ALL, JAVA)
"""The clients that have a listener of their own with short sessions."""


def own_listener(client: str) -> str:
    """Name the listener where the sessions of one client are short, and are counted."""
    return client.upper().replace("-", "_")


def subject(name: str) -> x509.Name:
    pairs = (NameOID.ORGANIZATION_NAME, "example"), (NameOID.COMMON_NAME, name)
    return x509.Name([x509.NameAttribute(of, value) for of, value in pairs])


class Secured(NamedTuple):
    """The cluster, and the files of its clients."""

    cluster: Cluster
    addresses: dict[str, str]
    directory: Path

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.pem")

    def login(self, mechanism: str, password: str = PASSWORD, user: str = "alice") -> Security:
        own = {"mechanism": mechanism, "user": user, "password": password}
        return {"protocol": "SASL_SSL", "ca": self.ca, **own}

    def certificate(self, name: str, by: Made | None = None) -> Security:
        path = make(subject(name), by=by).write(self.directory / f"{name}.pem")
        return {"protocol": "SSL", "ca": self.ca, "own": path}

    def logins(self, listener: str) -> tuple[int, int]:
        """Return how many connections a listener let in, and how many logins came again."""
        host, port = self.cluster.broker(1).ready["metrics"]
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=20) as response:
            families = text_string_to_metric_families(response.read().decode())
        found = {
            sample.name: int(sample.value)
            for family in families
            for sample in family.samples
            if sample.labels.get("listener") == listener
        }
        name = "kafka_server_socket_server_metrics_successful_{}authentication_total"
        return found.get(name.format(""), 0), found.get(name.format("re"), 0)


def settings_of(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the listeners of a broker, and what they ask for."""
    places = ",".join(f"{name}://{address}" for name, address in addresses.items())
    protocols = dict.fromkeys(addresses, "SASL_SSL") | {CERTIFIED: "SSL", PLAIN: "PLAINTEXT"}
    short = {
        f"listener.name.{own_listener(client).lower()}.connections.max.reauth.ms": str(SESSION_MS)
        for client in SHORT
    }
    return {
        **short,
        f"listener.name.{TOKENS.lower()}.connections.max.reauth.ms": str(SESSION_MS),
        "listeners": places,
        "listener.security.protocol.map": ",".join(f"{a}:{b}" for a, b in protocols.items()),
        "inter.broker.listener.name": PLAIN,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.login.plain.sasl.jaas.config": "org.apache.kafka.common.security.plain."
        f'PlainLoginModule required user_alice="{PASSWORD}";',
        f"listener.name.{TOKENS.lower()}.sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        f"listener.name.{CERTIFIED.lower()}.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+),O=example$/$1/L,DEFAULT",
        "connection.failed.authentication.delay.ms": "50",
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }


@contextmanager
def running(directory: Path, settings: Mapping[str, str]) -> Iterator[Secured]:
    """Run a broker that lets alice in, and lets nobody else do anything."""
    # Without PyJWT the tests with this broker are skipped, and not the whole folder.
    from ..security.issuer import published

    (directory / "ca.pem").write_text(authority().certificate_pem)
    (directory / "other.pem").write_text(authority("other").certificate_pem)
    keys_of_tokens = directory / "keys.json"
    keys_of_tokens.write_bytes(published())
    names = [PLAIN, CERTIFIED, LOGIN, TOKENS, *map(own_listener, SHORT)]
    ports = free_ports(len(names))
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    keys = {
        "ssl.keystore.location": make("broker").write(directory / "broker.pem"),
        "ssl.truststore.location": str(directory / "ca.pem"),
        JWKS: f"file://{keys_of_tokens}",
    }
    everything = {**settings, **settings_of(addresses), **keys}
    with Cluster(directory, broker_settings=everything) as cluster:
        cluster.broker(1).environment[ALLOWED_FILES] = str(keys_of_tokens)
        cluster.start()
        kinds = AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID
        may = "User:alice", "*", AclOperation.ALL, AclPermission.ALLOW
        sizes = 256, 512
        with Admin(addresses[PLAIN]) as admin:
            admin.create_acls(Acl(kind, "*", AclPattern.LITERAL, *may) for kind in kinds)
            admin.alter_scram_credentials(
                ScramChange("alice", f"SCRAM-SHA-{size}", PASSWORD) for size in sizes
            )
        yield Secured(cluster, addresses, directory)
        cluster.stop()
