"""SCRAM credentials as plain values."""

from dataclasses import dataclass, field

from ...security.sasl.scram import ITERATIONS_MIN


@dataclass(frozen=True, slots=True)
class ScramChange:
    """A user's new password for one mechanism, or the deletion of his old one."""

    user: str
    mechanism: str
    """SCRAM-SHA-256 or SCRAM-SHA-512."""
    password: str | None = field(default=None, repr=False)
    """The new password; None deletes the credential."""
    iterations: int = ITERATIONS_MIN
    """The number of rounds in which the password is hashed, 4096 to 16384."""
    salt: bytes | None = field(default=None, repr=False)
    """The salt; None means a random one."""
