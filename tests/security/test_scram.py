"""SCRAM: both ends prove the password, and nothing but the password gets in."""

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.scram import ScramCredential
from minikafka.security.sasl.errors import SaslError
from minikafka.security.sasl.replies import Accepted, Challenge, Refused, Reply
from minikafka.security.sasl.scram import (
    ScramClient,
    ScramMechanism,
    ScramPassword,
    ScramServer,
    ScramUsers,
    TokenLogin,
    credential_of,
)

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALT = b"salt of 16 bytes"


def credential(mechanism: ScramMechanism, password: str) -> ScramCredential:
    salted = mechanism.salted(password, SALT, 4096)
    return credential_of(mechanism, salted, SALT, 4096)


KNOWN = {
    mechanism: {name: credential(mechanism, "pw") for name in ("alice", "o=x,cn=a", "böb")}
    for mechanism in ScramMechanism
}


def server(mechanism: ScramMechanism = SHA_256, nonce: str = "server-nonce") -> ScramServer:
    def nobody(name: str) -> ScramCredential:
        return ScramCredential(b"salt of nobody..", b"k" * 32, b"s" * 32, 4096)

    return ScramServer(ScramUsers(mechanism, KNOWN[mechanism].get, nobody), nonce)


def failed(mechanism: ScramMechanism = SHA_256) -> Refused:
    return Refused(
        "Authentication failed during authentication due to invalid credentials with SASL "
        f"mechanism {mechanism.sasl_name}"
    )


def log_in(client: ScramClient, end: ScramServer) -> Reply:
    challenge = end.step(client.first())
    assert isinstance(challenge, Challenge)
    proof = client.step(challenge.token)
    assert proof is not None
    reply = end.step(proof)
    if isinstance(reply, Accepted):
        assert client.step(reply.token) is None
    return reply


def client_of(name: str, password: str, mechanism: ScramMechanism = SHA_256) -> ScramClient:
    return ScramClient(ScramPassword(mechanism, name, password), "client-nonce")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", KNOWN[SHA_256])
def test_s_08_both_ends_agree(mechanism: ScramMechanism, name: str) -> None:
    assert log_in(client_of(name, "pw", mechanism), server(mechanism))[0] == name


def test_the_exchange_is_that_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = SHA_256.salted("pencil", salt, 4096)
    known = {"user": credential_of(SHA_256, salted, salt, 4096)}
    users = ScramUsers(SHA_256, known.get, lambda name: known["user"])
    end = ScramServer(users, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    client = ScramClient(ScramPassword(SHA_256, "user", "pencil"), "rOprNGfwEbeRWgbNEkqO")
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    challenge = end.step(client.first())
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert challenge == Challenge(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    proof = client.step(challenge.token)
    told = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    assert proof == f"c=biws,r={nonce},p={told}".encode()
    assert end.step(proof) == Accepted("user", b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_wrong_password_and_an_unknown_user_fail_alike(mechanism: ScramMechanism) -> None:
    for name, password in (("alice", "no"), ("nobody", "pw")):
        assert log_in(client_of(name, password, mechanism), server(mechanism)) == failed(mechanism)


def test_s_06_the_whole_nonce_must_come_back() -> None:
    client = client_of("alice", "pw")
    for wrong in (b"client-nonce", b"client-nonceanother", b"server-nonce"):
        end = server()
        challenge = end.step(client.first())
        assert isinstance(challenge, Challenge)
        proof = client_of("alice", "pw").step(challenge.token)
        assert proof is not None
        assert end.step(proof.replace(b"client-nonceserver-nonce", wrong)) == failed()


def test_s_07_another_authorization_id_is_refused() -> None:
    assert server().step("n,a=böb,n=alice,r=x".encode()) == failed()
    assert isinstance(server().step(b"n,a=alice,n=alice,r=x"), Challenge)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,n=alice",
        b"p=tls-unique,,n=alice,r=x",
        b"y,,n=alice,r=x",
        b"n,,m=ext,n=alice,r=x",
        b"n,,n=a=lice,r=x",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=x y",
        b"n,,n=al\xffice,r=x",
        b"n,,n=alice,r=" + b"x" * 5000,
    ],
)
def test_a_malformed_first_message_is_refused(first: bytes) -> None:
    assert server().step(first) == failed()


def test_the_final_message_must_repeat_how_the_channel_is_bound() -> None:
    end, client = server(), client_of("alice", "pw")
    challenge = end.step(b"n,a=alice," + client.first()[3:])
    assert isinstance(challenge, Challenge)
    proof = client.step(challenge.token)
    assert proof is not None
    assert end.step(proof) == failed()


class TestAClient:
    def challenged(self, text: str) -> Any:
        client = client_of("alice", "pw")
        client.first()
        return client.step(text.encode())

    @pytest.mark.parametrize(
        ("challenge", "why"),
        [
            ("r=client-nonce1,s=c2FsdA==,i=4095", "4095 iterations"),
            ("r=client-nonce1,s=c2FsdA==,i=999999999", "999999999 iterations"),
            ("r=client-nonce,s=c2FsdA==,i=4096", "nonce"),
            ("r=other,s=c2FsdA==,i=4096", "nonce"),
            ("e=other-error", "malformed"),
            ("r=client-nonce1,s=!,i=4096", "malformed"),
            ("", "malformed"),
        ],
    )
    def test_refuses_a_bad_challenge(self, challenge: str, why: str) -> None:
        with pytest.raises(SaslError, match=why):
            self.challenged(challenge)

    def test_refuses_a_server_that_does_not_know_the_password(self) -> None:
        client = client_of("alice", "pw")
        client.step(b"r=client-nonce1,s=c2FsdA==,i=4096")
        for token in (b"v=AAAA", b"v=", b"e=invalid-proof", b""):
            with pytest.raises(SaslError, match="prove"):
                client.step(token)

    def test_derives_the_keys_once_for_a_salt(self) -> None:
        password = ScramPassword(SHA_256, "alice", "pw")
        assert password.salted(SALT, 4096) is password.salted(SALT, 4096)


def test_a_credential_does_not_show_its_keys() -> None:
    known = KNOWN[SHA_256]["alice"]
    for text in (repr(known), str(known)):
        assert repr(known.stored_key) not in text
        assert repr(known.salt) not in text


@pytest.mark.parametrize(
    ("name", "left_ms", "is_accepted"), [("t", 5, True), ("t", 0, False), ("alice", 5, False)]
)
def test_a_token_logs_in_as_its_owner_until_it_expires(
    name: str, left_ms: int, is_accepted: bool
) -> None:
    token = TokenLogin("owner", credential(SHA_256, "pw"), lambda: left_ms)
    worthless = TokenLogin("", ScramCredential(SALT, b"k" * 32, b"s" * 32, 4096), lambda: 0)
    users = ScramUsers(SHA_256, KNOWN[SHA_256].get, lambda name: KNOWN[SHA_256]["alice"])
    end = ScramServer(users, "server-nonce", lambda name: token if name == "t" else worthless)
    client = ScramClient(ScramPassword(SHA_256, name, "pw", is_token=True), "client-nonce")
    assert client.first() == f"n,,n={name},r=client-nonce,tokenauth=true".encode()
    reply = log_in(client, end)
    if not is_accepted:
        assert reply == failed()
        return
    assert isinstance(reply, Accepted)
    assert (reply.name, reply.rest_ms, reply.is_by_token) == ("owner", left_ms, True)


@pytest.mark.parametrize(
    ("extensions", "is_token"),
    [
        (b",tokenauth=true", True),
        (b",a=b,TokenAuth=TRUE", True),
        (b",tokenauth=false", False),
        (b",tokenauth=true ", False),
        (b",xtokenauth=true", False),
        (b"", False),
    ],
)
def test_only_the_extension_means_a_token(extensions: bytes, is_token: bool) -> None:
    asked: list[str] = []

    def token_of(name: str) -> TokenLogin:
        asked.append(name)
        return TokenLogin("owner", credential(SHA_256, "pw"), lambda: 5)

    users = ScramUsers(SHA_256, KNOWN[SHA_256].get, lambda name: KNOWN[SHA_256]["alice"])
    end = ScramServer(users, "server-nonce", token_of)
    assert isinstance(end.step(b"n,,n=alice,r=x" + extensions), Challenge)
    assert asked == (["alice"] if is_token else [])


@given(st.lists(st.binary(max_size=200), max_size=3))
def test_no_bytes_get_in_or_raise(tokens: list[bytes]) -> None:
    end = server()
    for token in tokens:
        assert not isinstance(end.step(token), Accepted)


@settings(max_examples=25)
@given(st.text(max_size=40), st.text(max_size=40))
def test_no_other_user_or_password_gets_in(name: str, password: str) -> None:
    if "\0" in name or not name or "\ud800" <= max(name + password, default="") <= "\udfff":
        return
    if (name, password) not in ((known, "pw") for known in KNOWN[SHA_256]):
        assert log_in(client_of(name, password), server()) == failed()
