"""The names that a server goes by, checked against pages that bind another name to its address."""

from typing import Final
from urllib.parse import urlsplit

LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


def host_name(url: str) -> str | None:
    """Return the host of a URL, in lower case, without port and brackets; None if it has none."""
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
