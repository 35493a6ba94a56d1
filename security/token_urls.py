"""The addresses from which tokens and their keys come: HTTP servers and files, by Kafka's rule.

An address in a setting is used only if an environment variable lists exactly that text, because a
setting may be written by somebody who must not make this process read its files or reach into its
network (CVE-2025-27817). Kafka has system properties of Java for that.
"""

from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from ..runtime.errors import ConfigError
from ..runtime.switches import listed

ALLOWED_URLS: Final = "MINIKAFKA_SASL_OAUTHBEARER_ALLOWED_URLS"
"""The environment variable with the URLs of HTTP servers that may be asked, parted by commas."""
ALLOWED_FILES: Final = "MINIKAFKA_SASL_OAUTHBEARER_ALLOWED_FILES"
"""The environment variable with the paths of files that may be read, parted by commas."""
_PORTS: Final = {"https": 443, "http": 80}


class TokenUrl(NamedTuple):
    """An address of an HTTP server, or of a file."""

    text: str
    scheme: str
    """https, http or file."""
    host: str
    port: int
    target: str
    """The path and query of a request, or the path of the file."""

    @property
    def is_file(self) -> bool:
        """True if it is a file."""
        return self.scheme == "file"

    @property
    def has_tls(self) -> bool:
        """True if the server speaks TLS."""
        return self.scheme == "https"


def parse_url(key: str, text: str) -> TokenUrl:
    """Parse an address with https, http or file. Raise ConfigError, which names the key."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError(key, None, "has characters that a URL cannot have")
    try:
        parts = urlsplit(text)
        port = parts.port
        # A name that no resolver can be asked for would only fail when it is asked.
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ConfigError(key, text, f"is no URL: {error}") from None
    if parts.username is not None or parts.fragment:
        # The text goes to logs, and so must not hold a password.
        raise ConfigError(key, None, "must be a URL without user, password and fragment")
    if parts.scheme == "file":
        path = unquote(parts.path)
        if parts.netloc or not path.startswith("/") or "\0" in path:
            raise ConfigError(key, text, "must be file:///path, with the whole path")
        return TokenUrl(text, "file", "", 0, path)
    if parts.scheme not in _PORTS or not parts.hostname or port == 0:
        why = "must begin with https:// or http:// and name a host, or be file:///path"
        raise ConfigError(key, text, why)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    port = _PORTS[parts.scheme] if port is None else port
    return TokenUrl(text, parts.scheme, parts.hostname, port, target)


def check_allowed(key: str, url: TokenUrl) -> None:
    """Raise ConfigError, which names the key, unless the environment allows the address."""
    variable, wanted = (ALLOWED_FILES, url.target) if url.is_file else (ALLOWED_URLS, url.text)
    if wanted not in listed(variable):
        why = f"is not allowed: the environment variable {variable} must list {wanted}"
        raise ConfigError(key, url.text, why)
