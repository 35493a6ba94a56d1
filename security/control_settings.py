"""The settings of the control plane's seal, which brokers, controllers and tools share."""

import re
from collections.abc import Iterable
from typing import Any, Final

from ..protocol.control.messages import Endpoint
from ..runtime.config import setting
from ..runtime.errors import ConfigError

SECURITY: Final = "control.security"
FILE: Final = "control.psk.file"
PSK: Final = "psk"
NONE: Final = "none"
HOW: Final = "`minikafka generate key` makes one, the same for all nodes"
"""A hint for error messages: the way to make a key."""

_LOOPBACK: Final = re.compile(r"127(\.\d{1,3}){3}|::1|localhost")


def control_security() -> Any:
    """Declare the field of a configuration table, of type `str | None`."""
    return setting(
        SECURITY,
        None,
        choices=(PSK, NONE),
        doc="Whether brokers and controllers prove to each other that they hold the cluster's key,"
        " and seal what they send. psk: they do. none: where both ends have control.psk.file,"
        " which is for the time of a change. If unset, psk with control.psk.file; without it the"
        " daemon listens on loopback addresses only.",
    )


def control_psk_file() -> Any:
    """Declare the field of a configuration table, of type `str | None`."""
    return setting(
        FILE,
        None,
        doc="The file of the cluster's key: 32 random bytes in Base64 on one line, a second key on"
        " another while keys change. It is read anew for each connection, and refused if everybody"
        " may read it.",
    )


def check_control(security: str | None, path: str | None, listeners: Iterable[Endpoint]) -> None:
    """Raise ConfigError if a key is missing that the settings or the listeners ask for."""
    if path is not None or security == NONE:
        return
    if security == PSK:
        raise ConfigError(SECURITY, PSK, f"needs {FILE}: {HOW}")
    for listener in listeners:
        if not _LOOPBACK.fullmatch(listener.host):
            where = f"{listener.name}://{listener.host}:{listener.port}"
            why = f"is required to listen at {where}: {HOW}; or set {SECURITY}={NONE}"
            raise ConfigError(FILE, None, why)
