"""Signed requests between workers."""

from base64 import b64decode

import pytest

from minikafka.connect.config_log import SessionKey
from minikafka.connect.herding import BadRequest, Unavailable
from minikafka.connect.request_signature import (
    ALGORITHM,
    AUTHORIZATION,
    PREVIOUS_MS,
    Forbidden,
    SessionKeys,
    sign,
)

KEY = SessionKey(b"key", "HmacSHA256", 0)
NEXT = SessionKey(b"next", "HmacSHA256", 1)
BODY = b"The quick brown fox jumps over the lazy dog"


def test_the_signature_is_the_hmac_of_the_body() -> None:
    headers = sign(KEY, BODY)
    assert headers[ALGORITHM] == "HmacSHA256"
    # The known answer for this key and text.
    assert b64decode(headers[AUTHORIZATION]).hex() == (
        "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
    )


def test_x_19_unsigned_is_400_and_wrongly_signed_403() -> None:
    keys = SessionKeys()
    keys.replace(KEY, 0)
    keys.check(BODY, sign(KEY, BODY), 0)
    keys.check(BODY, {name.lower(): each for name, each in sign(KEY, BODY).items()}, 0)
    with pytest.raises(BadRequest, match="missing required signature") as unsigned:
        keys.check(BODY, {}, 0)
    assert unsigned.value.status == 400
    with pytest.raises(Forbidden) as wrong:
        keys.check(BODY + b"!", sign(KEY, BODY), 0)
    assert wrong.value.status == 403
    with pytest.raises(Forbidden):
        keys.check(BODY, sign(NEXT, BODY), 0)
    for header, value in ((ALGORITHM, "none"), (AUTHORIZATION, "*")):
        with pytest.raises(BadRequest):
            keys.check(BODY, {**sign(KEY, BODY), header: value}, 0)


def test_x_19_without_a_key_the_answer_is_503() -> None:
    with pytest.raises(Unavailable) as early:
        SessionKeys().check(BODY, sign(KEY, BODY), 0)
    assert early.value.status == 503


def test_x_19_the_previous_key_is_accepted_for_30_seconds() -> None:
    keys = SessionKeys()
    keys.replace(KEY, 0)
    keys.replace(NEXT, 1000)
    keys.replace(NEXT, 2000)  # The same key again makes nothing older.
    keys.check(BODY, sign(KEY, BODY), 1000 + PREVIOUS_MS)
    keys.check(BODY, sign(NEXT, BODY), 1000 + PREVIOUS_MS)
    with pytest.raises(Forbidden):
        keys.check(BODY, sign(KEY, BODY), 1001 + PREVIOUS_MS)
