"""Contexts of TLS: what is refused before a port opens, who gets in, and renewal in operation."""

import contextlib
import logging
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.runtime.config import from_mapping, parse_properties
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.stores import Identity
from minikafka.security.tls import (
    LOOK_MS,
    SAY_AGAIN_MS,
    ListenerTls,
    client_context,
    openssl_suite,
    read_stores,
)
from minikafka.security.tls_config import TlsConfig

from .certificates import ALTERNATIVES, Made, authority, make


class Clock(SystemRuntime):
    """The real files, and a time that the test sets."""

    now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms


@pytest.fixture
def runtime() -> Iterator[Clock]:
    made = Clock("test")
    yield made
    made.close()


@pytest.fixture
def server(tmp_path: Path) -> dict[str, str]:
    """A listener with a certificate for localhost."""
    return {"ssl.keystore.location": make("broker-1").write(tmp_path / "server.pem")}


def client_of(runtime: Clock, **settings: str) -> ssl.SSLContext:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    if "ssl.truststore.location" not in given:
        given.setdefault("ssl.truststore.certificates", authority().certificate_pem)
    config = from_mapping(TlsConfig, given)
    return client_context(config, read_stores(runtime.fs, config))


def meet(
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    host: str = "localhost",
    session: ssl.SSLSession | None = None,
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Shake hands in memory and return both ends; raise what either of them says."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=host, session=session)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (near, far):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    with contextlib.suppress(ssl.SSLWantReadError):
        near.read()
    return near, far


def certificate_settings(made: Made) -> dict[str, str]:
    return {
        "ssl_keystore_certificate_chain": made.certificate_pem,
        "ssl_keystore_key": made.key_pem(),
    }


def refused(runtime: Clock, properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        ListenerTls(runtime, properties, "SSL")
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Stores.


def test_pem_in_settings_may_have_blanks_for_line_ends(runtime: Clock) -> None:
    made = make("broker-1")
    listener = ListenerTls(
        runtime,
        {
            "ssl.keystore.certificate.chain": made.certificate_pem.replace("\n", " "),
            "ssl.keystore.key": made.key_pem("secret").replace("\n", " "),
            "ssl.key.password": "secret",
            "ssl.keystore.type": "PEM",
        },
        "SSL",
    )
    near, _ = meet(listener.context, client_of(runtime))
    assert near.version() == "TLSv1.3"


def test_stores_in_pkcs12(runtime: Clock, tmp_path: Path) -> None:
    made = make("broker-1")
    path = made.write(tmp_path / "server.p12", made.pkcs12("secret", authority()))
    properties = {"ssl.keystore.location": path, "ssl.keystore.password": "secret"}
    listener = ListenerTls(runtime, {**properties, "ssl.keystore.type": "PKCS12"}, "SSL")
    trust = {"ssl_truststore_location": path, "ssl_truststore_password": "secret"}
    meet(listener.context, client_of(runtime, **trust))


def test_a_listeners_own_settings_replace_those_of_all(
    runtime: Clock, server: dict[str, str]
) -> None:
    properties = {
        "ssl.keystore.location": "/nowhere",
        "listener.name.outside.ssl.keystore.location": server["ssl.keystore.location"],
        "listener.name.outside.ssl.enabled.protocols": "TLSv1.2",
    }
    near, _ = meet(ListenerTls(runtime, properties, "OUTSIDE").context, client_of(runtime))
    assert near.version() == "TLSv1.2"
    assert "ssl.keystore.location=/nowhere: No such file" in refused(runtime, properties)


def test_every_store_that_cannot_be_used_is_named_with_the_reason(
    runtime: Clock, tmp_path: Path
) -> None:
    made = make("broker-1")
    other = make("other")

    def told(content: str | bytes, **settings: str) -> str:
        path = made.write(tmp_path / "it", content)
        given = {key.replace("_", "."): value for key, value in settings.items()}
        return refused(runtime, {"ssl.keystore.location": path, **given})

    assert "is required on a listener with TLS" in refused(runtime, {})
    assert "keytool -importkeystore -srckeystore" in told(b"\xfe\xed\xfe\xed\0\0\0\2")
    assert "is neither PEM nor PKCS12" in told("hello")
    assert "is PEM, but its type is set to PKCS12" in told(made.pem, ssl_keystore_type="PKCS12")
    assert "has no private key" in told(made.certificate_pem)
    assert "has no certificate" in told(made.key_pem())
    assert "does not belong to the first" in told(made.certificate_pem + other.key_pem())
    assert "ssl.key.password does not open it" in told(made.certificate_pem + made.key_pem("a"))
    assert "PKCS12, is its password right?" in told(made.pkcs12("a"), ssl_keystore_password="b")
    assert "certificate has expired" in told(make("old", days=-1).pem)
    broken = made.certificate_pem.replace("MII", "AAA")
    assert "cannot be loaded" in told(made.key_pem() + broken)
    assert "ssl.truststore.location: is required with ssl.client.auth=required" in told(
        made.pem, ssl_client_auth="required"
    )
    assert "has no certificate" in told(made.pem, ssl_truststore_certificates=made.key_pem())
    odd = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"
    assert "has no certificate" in told(made.pem, ssl_truststore_certificates=odd.format("ü"))
    assert "no start line" in told(made.pem, ssl_truststore_certificates=odd.format("AAAA"))
    encrypted = made.certificate_pem + made.key_pem("a")
    assert "ssl.key.password: " in told(encrypted, ssl_key_password="x" * 5000)
    assert "is no path" in refused(runtime, {"ssl.keystore.location": "a\0b"})
    (tmp_path / "it").chmod(0o644)
    why = refused(runtime, {"ssl.keystore.location": str(tmp_path / "it")})
    assert "everybody may read or write it (mode 0644): chmod 600" in why
    (tmp_path / "it").chmod(0o600)
    trusted = tmp_path / "ca.pem"
    trusted.write_text(made.certificate_pem)
    trusted.chmod(0o646)
    why = told(made.pem, ssl_truststore_location=str(trusted))
    assert f"everybody may write it (mode 0646): chmod o-w {trusted}" in why


def test_s_55_neither_key_nor_password_is_shown(
    runtime: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = make("broker-1")
    key = made.key_pem()
    secrets = {
        "ssl.keystore.password": "hunter2",
        "ssl.key.password": "hunter2",
        "ssl.truststore.password": "hunter2",
    }
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": made.certificate_pem}
    config = from_mapping(TlsConfig, {**secrets, **inline})
    told = [repr(config), repr(read_stores(runtime.fs, config)), repr(Identity(key, "hunter2"))]
    for content in (made.pkcs12("x"), made.certificate_pem + made.key_pem("x"), "nothing"):
        path = made.write(tmp_path / "it", content)
        told.append(refused(runtime, {**secrets, "ssl.keystore.location": path}))
    other = {**inline, "ssl.keystore.certificate.chain": make("other").certificate_pem}
    told.append(refused(runtime, {**secrets, **other}))
    for text in (*told, caplog.text):
        assert "hunter2" not in text
        assert key.splitlines()[1] not in text


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"ssl.enabled.protocols": "TLSv1.1"}, "=TLSv1.1: must be one of TLSv1.2, TLSv1.3"),
        ({"ssl.client.auth": "maybe"}, "must be one of none, requested, required"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "is a suite of TLS 1.3, and those"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL"}, "is no cipher suite of TLS 1.2"),
        ({"ssl.keystore.key": "x"}, "need each other"),
        ({"ssl.truststore.certificates": "x", "ssl.ca.location": "y"}, "cannot be set together"),
        ({"ssl.principal.mapping.rules": "x"}, "is neither DEFAULT nor RULE"),
    ],
)
def test_s_26_settings_that_cannot_be_are_refused(
    runtime: Clock, server: dict[str, str], settings: dict[str, str], line: str
) -> None:
    assert line in refused(runtime, {**server, **settings})


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_cipher_suites_have_two_names(iana: str, openssl: str) -> None:
    assert openssl_suite(iana) == openssl
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(openssl_suite(iana))


def test_a_chosen_suite_is_used(runtime: Clock, server: dict[str, str]) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    chosen = {"ssl.cipher.suites": suite, "ssl.enabled.protocols": "TLSv1.2"}
    near, _ = meet(ListenerTls(runtime, server | chosen, "SSL").context, client_of(runtime))
    assert near.cipher() == ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLSv1.2", 256)


# Who gets in.


def test_s_26_an_old_version_of_tls_is_refused(runtime: Clock, server: dict[str, str]) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        meet(ListenerTls(runtime, server, "SSL").context, old)


def test_a_server_must_be_trusted_and_have_the_name_that_was_dialled(
    runtime: Clock, server: dict[str, str]
) -> None:
    context = ListenerTls(runtime, server, "SSL").context
    meet(context, client_of(runtime), "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        meet(context, client_of(runtime), "elsewhere")
    meet(context, client_of(runtime, ssl_endpoint_identification_algorithm=""), "elsewhere")
    stranger = authority("stranger").certificate_pem
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        meet(context, client_of(runtime, ssl_truststore_certificates=stranger))


@pytest.mark.parametrize("auth", ["none", "requested", "required"])
def test_s_24_whether_a_client_shows_a_certificate(
    runtime: Clock, server: dict[str, str], auth: str
) -> None:
    trust = {"ssl.truststore.certificates": authority().certificate_pem}
    listener = ListenerTls(runtime, {**server, **trust, "ssl.client.auth": auth}, "SSL")

    def principal(client: ssl.SSLContext) -> str:
        _, far = meet(listener.context, client)
        return str(listener.principal_of(far.getpeercert(binary_form=True)))

    with_one = client_of(runtime, **certificate_settings(make("alice")))
    stranger = client_of(runtime, **certificate_settings(make("alice", by=authority("stranger"))))
    assert principal(with_one) == ("User:ANONYMOUS" if auth == "none" else "User:CN=alice")
    if auth == "required":
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            principal(client_of(runtime))
    else:
        assert principal(client_of(runtime)) == "User:ANONYMOUS"
    if auth != "none":
        with pytest.raises(ssl.SSLCertVerificationError):
            principal(stranger)


def test_s_23_a_subject_that_no_rule_matches_is_nobody(
    runtime: Clock, server: dict[str, str]
) -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(b.*)$/$1/U"}
    listener = ListenerTls(runtime, server | rules, "SSL")
    found = [
        listener.principal_of(ssl.PEM_cert_to_DER_cert(make(name).certificate_pem))
        for name in ("bob", "alice")
    ]
    assert [each and str(each) for each in found] == ["User:BOB", None]
    assert listener.principal_of(b"no certificate") is None


# Renewal.


def shown(listener: ListenerTls, runtime: Clock) -> str:
    near, _ = meet(listener.context, client_of(runtime))
    certificate = near.getpeercert() or {}
    return str(certificate["serialNumber"])


def test_s_25_a_new_certificate_is_used_and_a_broken_file_changes_nothing(
    runtime: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "minikafka.security.tls")
    path = tmp_path / "server.pem"
    listener = ListenerTls(runtime, {"ssl.keystore.location": make("b").write(path)}, "SSL")
    first = shown(listener, runtime)
    make("b").write(path)
    runtime.now_ms = LOOK_MS - 1
    assert shown(listener, runtime) == first
    runtime.now_ms = LOOK_MS
    second = shown(listener, runtime)
    assert second != first
    assert caplog.messages == [f"new keys and certificates are used: {path}"]
    caplog.clear()
    for content, why in [
        ("", "is neither PEM nor PKCS12"),
        (make("b", days=-1).pem, "certificate has expired"),
        (make("c").pem, "its subject is CN=c, before it was CN=b: ssl.allow.dn.changes"),
        (
            make("b", alternatives=ALTERNATIVES[:1]).pem,
            "it no longer names IP Address:127.0.0.1: ssl.allow.san.changes",
        ),
    ]:
        make("b").write(path, content)
        for _ in range(3):
            runtime.now_ms += LOOK_MS
            assert shown(listener, runtime) == second
        (said,) = caplog.messages
        assert why in said
        caplog.clear()
    runtime.now_ms += SAY_AGAIN_MS
    assert shown(listener, runtime) == second
    assert len(caplog.messages) == 1


def test_a_certificate_that_only_openssl_reads_is_refused_and_the_one_before_it_stays(
    runtime: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "server.pem"
    properties = {"ssl.keystore.location": make("b").write(path)}
    listener = ListenerTls(runtime, properties, "SSL")
    first = shown(listener, runtime)

    def subject_of(certificate: bytes) -> str:
        raise ValueError("the bytes are no certificate")

    monkeypatch.setattr("minikafka.security.tls.subject_of", subject_of)
    assert "its certificate cannot be read" in refused(runtime, properties)
    make("b").write(path)
    runtime.now_ms += LOOK_MS
    assert shown(listener, runtime) == first


def test_s_25_a_client_of_an_authority_that_was_removed_is_refused(
    runtime: Clock, server: dict[str, str], tmp_path: Path
) -> None:
    """Also if it brings the session of an earlier connection."""
    path = tmp_path / "trusted.pem"
    path.write_text(authority().certificate_pem)
    listener = ListenerTls(
        runtime,
        server | {"ssl.truststore.location": str(path), "ssl.client.auth": "required"},
        "SSL",
    )
    alice = certificate_settings(make("alice"))
    clients = [
        client_of(runtime, **alice, ssl_enabled_protocols=each) for each in ("TLSv1.2", "TLSv1.3")
    ]
    sessions = [meet(listener.context, client)[0].session for client in clients]
    for client, session in zip(clients, sessions, strict=True):
        assert meet(listener.context, client, session=session)[0].session_reused
    path.write_text(authority("another").certificate_pem)
    runtime.now_ms += LOOK_MS
    for client, session in zip(clients, sessions, strict=True):
        with pytest.raises(ssl.SSLCertVerificationError):
            meet(listener.context, client, session=session)


# The documentation.


def test_the_certificates_of_the_documentation_work(
    runtime: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    commands = page[page.index("openssl req -x509") :].partition("```")[0]
    section = page.partition("### Certificates")[2]
    settings = section.partition("```properties\n")[2].partition("```")[0]
    subprocess.run(
        ["bash", "-eu", "-c", commands], cwd=tmp_path, check=True, capture_output=True, timeout=60
    )
    monkeypatch.chdir(tmp_path)
    listener = ListenerTls(runtime, parse_properties(settings), "OUTSIDE")
    client = client_of(
        runtime, ssl_truststore_location="ca.pem", ssl_keystore_location="broker-1.pem"
    )
    _, far = meet(listener.context, client)
    principal = listener.principal_of(far.getpeercert(binary_form=True))
    assert str(principal) == "User:CN=broker-1,O=example"
