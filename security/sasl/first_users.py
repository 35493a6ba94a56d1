"""The users of `--add-scram`, which a cluster has from its first record on.

    SCRAM-SHA-256=[name=carol,password=secret]
    SCRAM-SHA-512=[name=carol,iterations=8192,salt="c2FsdA==",saltedpassword="..."]

The form is that of Kafka's `kafka-storage format`. An error never shows a password.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ...protocol.scram import ScramCredential
from ...runtime.errors import ConfigError
from .scram import (
    BY_NAME,
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES,
    ScramMechanism,
    credential_of,
)

FLAG: Final = "--add-scram"
_KEYS: Final = ("name", "password", "iterations", "salt", "saltedpassword")


class FirstUser(NamedTuple):
    """A user, who has either a password or a password that is salted already."""

    mechanism: ScramMechanism
    name: str
    password: str | None
    salted_password: bytes | None
    salt: bytes | None
    iterations: int

    def credential(self, random_bytes: Callable[[int], bytes]) -> ScramCredential:
        """Return the credential, with a random salt unless one is given."""
        salt = random_bytes(SALT_BYTES) if self.salt is None else self.salt
        salted = self.salted_password
        if salted is None:
            assert self.password is not None
            salted = self.mechanism.salted(self.password, salt, self.iterations)
        return credential_of(self.mechanism, salted, salt, self.iterations)


def parse_first_user(text: str) -> FirstUser:
    """Parse one value of `--add-scram`; raise ConfigError, which names the fault."""
    mechanism_name, equals, rest = text.partition("=")
    mechanism = BY_NAME.get(mechanism_name.strip())
    if not equals or mechanism is None or rest[:1] + rest[-1:] != "[]":
        why = f"must look like {next(iter(BY_NAME))}=[name=...,password=...]"
        raise ConfigError(FLAG, None, why)
    given = _fields(rest[1:-1])
    if not given.get("name"):
        raise ConfigError(FLAG, None, "needs a name")
    iterations = given.get("iterations", str(ITERATIONS_MIN))
    if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        why = f"iterations must be {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        raise ConfigError(FLAG, f"iterations={iterations}", why)
    salted, salt = _bytes(given, "saltedpassword"), _bytes(given, "salt")
    password = given.get("password")
    if (password is None) == (salted is None) or password == "":
        raise ConfigError(FLAG, None, "needs either a password or a saltedpassword")
    if salted is not None and (salt is None or len(salted) != len(mechanism.hash(b""))):
        size = len(mechanism.hash(b""))
        raise ConfigError(FLAG, None, f"a saltedpassword needs its salt, and has {size} bytes")
    return FirstUser(mechanism, given["name"], password, salted, salt, int(iterations))


def _fields(text: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or key not in _KEYS or key in given:
            raise ConfigError(FLAG, None, f"takes each of {', '.join(_KEYS)} once at most")
        is_quoted = len(value) > 1 and value[0] == value[-1] == '"'
        given[key] = value[1:-1] if is_quoted else value
    return given


def _bytes(given: Mapping[str, str], key: str) -> bytes | None:
    text = given.get(key)
    if text is None:
        return None
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not found:
        raise ConfigError(FLAG, None, f"{key} must be base64")
    return found
