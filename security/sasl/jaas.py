"""Kafka's JAAS text, as in `sasl.jaas.config`: a login module, a flag and options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";

The module's class is looked up in a list and never loaded. The values are secrets: an error names
the key and the place of the fault, and never the text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ...runtime.errors import ConfigError
from .oauthbearer import OAUTHBEARER
from .plain import PLAIN
from .scram import BY_NAME

_PACKAGE: Final = "org.apache.kafka.common.security."
MODULES: Final[Mapping[str, tuple[str, ...]]] = {
    f"{_PACKAGE}plain.PlainLoginModule": (PLAIN,),
    f"{_PACKAGE}scram.ScramLoginModule": tuple(BY_NAME),
    f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule": (OAUTHBEARER,),
}
"""The login modules that are known, with the mechanisms that each serves."""
UNSUPPORTED: Final[Mapping[str, str]] = {
    "com.sun.security.auth.module.Krb5LoginModule": "GSSAPI (Kerberos) is not supported",
    "com.sun.security.auth.module.JndiLoginModule": "it loads code from the network",
    "com.ibm.security.auth.module.Krb5LoginModule": "GSSAPI (Kerberos) is not supported",
}
FLAGS: Final = ("required", "requisite", "sufficient", "optional")
TEXT_MAX: Final = 1 << 20
"""The most characters of a JAAS text."""
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<mark>[=;])"""
    r"""|"(?P<quoted>(?:[^"\\\n]|\\.)*)"|'(?P<single>(?:[^'\\\n]|\\.)*)'|(?P<word>[^\s=;"'/\\]+)""",
    re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_USER_PREFIX: Final = "user_"


class _Word(NamedTuple):
    text: str
    is_mark: bool = False
    """True for = and ; outside of quotes."""


EQUALS: Final = _Word("=", is_mark=True)
END: Final = _Word(";", is_mark=True)


@dataclass(frozen=True, slots=True)
class JaasLogin:
    """One login module with its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        """The name under which this process logs in; None if none is given."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        """The password with which this process logs in; None if none is given."""
        return self.options.get("password")

    @property
    def is_token(self) -> bool:
        """True if name and password are the id and the secret of a delegation token."""
        return self.options.get("tokenauth", "").lower() == "true"

    @property
    def passwords(self) -> dict[str, str]:
        """The passwords of the users that may log in here, from options named user_<name>."""
        return {
            key.removeprefix(_USER_PREFIX): value
            for key, value in self.options.items()
            if key.startswith(_USER_PREFIX)
        }


def parse_jaas(key: str, text: str, mechanism: str) -> JaasLogin:
    """Parse a JAAS text for a mechanism. Raise ConfigError, which names the key and the fault."""
    if len(text) > TEXT_MAX:
        raise ConfigError(key, None, f"is longer than {TEXT_MAX} characters")
    words = _words(key, text)
    if [word.is_mark for word in words[:2]] != [False, False]:
        raise ConfigError(key, None, 'is not `LoginModule required option="value" ...;`')
    module, flag = words[0].text, words[1].text
    _check_module(key, module, mechanism)
    if flag.lower() not in FLAGS:
        raise ConfigError(key, None, f"the second word must be one of {', '.join(FLAGS)}")
    if words[-1] != END:
        raise ConfigError(key, None, "must end in a semicolon")
    options: dict[str, str] = {}
    rest = words[2:-1]
    for start in range(0, len(rest), 3):
        name, equals, value = (*rest[start : start + 3], END, END)[:3]
        if name.is_mark or equals != EQUALS or value.is_mark:
            why = f'option {len(options) + 1} is not name="value"; only one login module may come'
            raise ConfigError(key, None, why)
        if name.text in options:
            raise ConfigError(key, None, f"option {len(options) + 1} is given twice")
        options[name.text] = value.text
    return JaasLogin(module, options)


def _words(key: str, text: str) -> list[_Word]:
    words: list[_Word] = []
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise ConfigError(key, None, f"character {position + 1} cannot be there")
        position = found.end()
        quoted = found["quoted"] if found["quoted"] is not None else found["single"]
        if quoted is not None:
            words.append(_Word(_ESCAPE.sub(_unescape, quoted)))
        elif found["mark"] is not None:
            words.append(_Word(found["mark"], is_mark=True))
        elif found["word"] is not None:
            words.append(_Word(found["word"]))
    return words


def _unescape(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1])


def _check_module(key: str, module: str, mechanism: str) -> None:
    if module in UNSUPPORTED:
        raise ConfigError(key, module, UNSUPPORTED[module])
    serves = MODULES.get(module)
    if serves is None:
        raise ConfigError(key, module[:200], f"the login modules are {', '.join(MODULES)}")
    if mechanism not in serves:
        why = f"serves {', '.join(serves)}, not {mechanism}"
        raise ConfigError(key, module, why)
