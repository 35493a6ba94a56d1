"""A delegation token as the metadata log keeps it: owner, renewers and times, but no secret.

Times are in milliseconds since the epoch. Principals are texts such as `User:alice`.
"""

from typing import NamedTuple


class DelegationToken(NamedTuple):
    """A token with which processes log in as its owner for a while (KIP-48)."""

    owner: str
    """The principal that a client has when it logs in by the token."""
    requester: str
    """The principal that asked for the token."""
    renewers: tuple[str, ...]
    """The principals besides the owner that may renew the token."""
    issued_ms: int
    expires_ms: int
    """The time from which on nobody can log in by the token."""
    latest_ms: int
    """The time beyond which no renewal extends the token."""

    def has_expired(self, now_ms: int) -> bool:
        """True if nobody can log in by the token any more."""
        return now_ms >= min(self.expires_ms, self.latest_ms)

    def may_renew(self, principal: str) -> bool:
        """True if the principal may renew the token or make it expire."""
        return principal == self.owner or principal in self.renewers

    @property
    def concerned(self) -> tuple[str, ...]:
        """The principals that own the token, asked for it or may renew it."""
        return (self.owner, self.requester, *self.renewers)
