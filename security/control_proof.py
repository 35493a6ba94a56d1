"""The proofs between the nodes of a cluster: a key that all share, certificates, or both."""

from dataclasses import dataclass
from typing import TypeAlias

from ..runtime.runtime import Runtime
from .control_keys import ControlKeys
from .control_settings import MTLS, ControlSettings
from .control_tls import ControlTls

ControlProof: TypeAlias = ControlKeys | ControlTls


@dataclass(frozen=True, slots=True)
class Proofs:
    """The proofs that a node has."""

    keys: ControlKeys | None = None
    """The cluster's keys; a peer that proves to hold one of them is accepted."""
    tls: ControlTls | None = None
    """The node's certificate; a peer with TLS is accepted if it shows one too."""
    shown: ControlProof | None = None
    """The proof that this node shows where it connects; None if it shows none."""

    @property
    def are_required(self) -> bool:
        """True if a peer that proves nothing is refused."""
        return self.tls is not None or (self.keys is not None and self.keys.is_required)


def open_proofs(runtime: Runtime, settings: ControlSettings, name: str | None = None) -> Proofs:
    """Read the keys and certificates that the settings name.

    `name` is the name that a daemon's certificate must have; None for a tool. Raise ConfigError if
    a file cannot be used.
    """
    keys = ControlKeys.open(runtime, settings.security, settings.path)
    tls = ControlTls(runtime, settings.tls, name) if settings.has_tls else None
    return Proofs(keys, tls, tls if MTLS in settings.shows else keys)
