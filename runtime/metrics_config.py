"""The setting that brokers and controllers share: the address at which they serve metrics."""

from typing import Any, Final

from .config import PORT_MAX, setting
from .errors import ConfigError

KEY: Final = "metrics.listener"


def metrics_listener() -> Any:
    """Declare the field of a configuration table, of type `str | None`."""
    return setting(
        KEY,
        None,
        doc="host:port to serve /metrics, /health/live and /health/ready at, by HTTP "
        "without authentication. If unset, nothing is served.",
    )


def metrics_address(text: str | None) -> tuple[str, int] | None:
    """Return host and port to listen on, or None if unset.

    Raise ConfigError if the text is wrong.
    """
    if text is None:
        return None
    host, _, port = text.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise ConfigError(KEY, text, "must be host:port, as in 127.0.0.1:9404")
    return host.strip("[]"), int(port)
