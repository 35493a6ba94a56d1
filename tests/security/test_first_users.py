"""`--add-scram`: which users it makes, and what is refused without showing a password."""

import base64

import pytest

from minikafka.runtime.errors import ConfigError
from minikafka.security.sasl.first_users import parse_first_user
from minikafka.security.sasl.scram import ScramMechanism, credential_of

SHA_256 = ScramMechanism.SHA_256
SALT = b"salt of 16 bytes"


def test_a_password_is_salted() -> None:
    user = parse_first_user("SCRAM-SHA-256=[name=carol,password=a=b,iterations=8192]")
    expected = credential_of(SHA_256, SHA_256.salted("a=b", SALT, 8192), SALT, 8192)
    assert user.name == "carol"
    assert user.credential(lambda count: SALT[:count]) == expected


def test_a_salted_password_is_taken_as_it_is() -> None:
    salted = SHA_256.salted("pw", SALT, 4096)
    text = f'salt="{base64.b64encode(SALT).decode()}"'
    text += f',saltedpassword="{base64.b64encode(salted).decode()}"'
    user = parse_first_user(f'SCRAM-SHA-256=[name="carol",{text}]')
    assert user.credential(lambda count: b"") == credential_of(SHA_256, salted, SALT, 4096)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "must look like"),
        ("PLAIN=[name=a,password=hunter2]", "must look like"),
        ("SCRAM-SHA-256=name=a,password=hunter2", "must look like"),
        ("SCRAM-SHA-256=[password=hunter2]", "needs a name"),
        ("SCRAM-SHA-256=[name=a]", "either a password or"),
        ("SCRAM-SHA-256=[name=a,password=]", "either a password or"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,saltedpassword=cGFzcw==]", "either a password"),
        ("SCRAM-SHA-256=[name=a,pasword=hunter2]", "once at most"),
        ("SCRAM-SHA-256=[name=a,name=b,password=hunter2]", "once at most"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=4095]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=x]", "4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,salt=?]", "salt must be base64"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=cGFzcw==]", "needs its salt, and has 32 bytes"),
    ],
)
def test_a_wrong_text_is_refused_without_its_password(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        parse_first_user(text)
    assert caught.value.key == "--add-scram"
    assert "hunter2" not in str(caught.value)
