"""Apache Kafka's own client in Java over TLS: past its sessions, by certificate, and not let in."""

from pathlib import Path

import pytest

from minikafka import Admin, NewTopic

from ..support import apache_kafka
from .secured import CERTIFIED, JAVA, LOGIN, PASSWORD, PLAIN, Secured, own_listener

pytestmark = [pytest.mark.slow, pytest.mark.peers]

PROGRAM = Path(__file__).parent / "java" / "Secured.java"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


def settings_of(secured: Secured, way: str) -> dict[str, str]:
    """Return the properties of a client that goes this way."""
    common = {"ssl.truststore.type": "PEM", "ssl.truststore.location": secured.ca}
    if way == "certificate":
        own = secured.certificate("ALICE")["own"]
        return {
            **common,
            "bootstrap.servers": secured.addresses[CERTIFIED],
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": own,
        }
    listener, password = own_listener(JAVA), PASSWORD
    if way == "refused":
        listener, password = LOGIN, "no"
    return {
        **common,
        "bootstrap.servers": secured.addresses[listener],
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} username="alice" password="{password}";',
        "test.relogins": "2",
    }


def test_a_login_past_its_sessions_a_certificate_and_a_refusal(
    secured: Secured, tmp_path: Path
) -> None:
    ways = ("login", "certificate", "refused")
    with Admin(secured.addresses[PLAIN]) as admin:
        admin.create_topics([NewTopic(f"java-{way}", 1, 1) for way in ways])
    files = []
    for way in ways:
        files.append(tmp_path / f"{way}.properties")
        rows = settings_of(secured, way) | {"test.topic": f"java-{way}"}
        files[-1].write_text("".join(f"{key}={value}\n" for key, value in rows.items()))
    out = apache_kafka.java(str(PROGRAM), *map(str, files))
    said = dict(line.split(" ", 1) for line in out.splitlines() if line.startswith("java-"))
    passed = said["java-login"].split(",")
    assert passed == [str(number) for number in range(len(passed))]
    assert secured.logins(own_listener(JAVA))[1] >= 4
    assert said["java-certificate"] == "0"
    assert said["java-refused"].startswith("SaslAuthenticationException: Authentication failed")
