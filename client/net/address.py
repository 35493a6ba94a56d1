"""The address of a server: host and port, as configured or as the cluster advertises them.

Pure. Names are not resolved.
"""

from typing import NamedTuple

from ...runtime.config import PORT_MAX
from ...runtime.errors import ConfigError


class Address(NamedTuple):
    """The host and port that a process listens at."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, server: str) -> "Address":
        """Parse host:port or [v6]:port; raise ConfigError for anything else."""
        host, colon, port = server.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) <= PORT_MAX:
            raise ConfigError("bootstrap.servers", server, "must be host:port")
        return cls(host, int(port))
