"""TLS of the control plane: both ends show certificates, which prove what node each of them is.

Changed files are read again, as those of listeners are, so certificates change without a restart.
"""

import ssl
from typing import Final

from ..runtime.config import from_mapping
from ..runtime.errors import ConfigError
from ..runtime.runtime import Runtime
from .control_settings import KEYSTORE, PREFIX, ControlTlsConfig
from .tls import ClientTls, ListenerTls
from .tls_config import TlsConfig

DATAGRAM_KEY_BYTES: Final = 32
"""Bytes of the key that a controller makes for the datagrams beside a connection."""


class ControlTls:
    """The key and certificate of one node, and the authorities that it trusts."""

    def __init__(self, runtime: Runtime, config: ControlTlsConfig, due: str | None = None) -> None:
        """Read the stores; `due` is the name that the certificate must have; None if it may be any.

        Raise ConfigError, which names the wrong setting.
        """
        properties = config.properties
        try:
            self._listener = ListenerTls(runtime, properties, "control")
            self._client = ClientTls(runtime, from_mapping(TlsConfig, properties))
        except ConfigError as error:
            raise ConfigError(PREFIX + error.key, error.value, error.why) from None
        own = self._listener.own_name
        if due is not None and own != due:
            why = f"its certificate is that of {own!r}, not of {due!r}"
            raise ConfigError(KEYSTORE, config.control_ssl_keystore_location, why)

    @property
    def server_context(self) -> ssl.SSLContext:
        """The context for a connection that comes now."""
        return self._listener.context

    @property
    def client_context(self) -> ssl.SSLContext:
        """The context for a connection that is opened now."""
        return self._client.context

    def name_of(self, end: ssl.SSLObject) -> str | None:
        """Return the name that the peer's verified certificate proves; None if no rule gives one.

        `end` is this end of a connection.
        """
        certificate = end.getpeercert(binary_form=True)
        principal = None if certificate is None else self._listener.principal_of(certificate)
        return None if principal is None else principal.name
