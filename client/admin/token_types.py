"""A delegation token as a plain value."""

import base64
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with which processes log in as its owner for a while (KIP-48).

    Times are in milliseconds since the epoch. Principals are texts such as `User:alice`.
    """

    token_id: str
    """The user name with which a client logs in by the token."""
    hmac: bytes = field(repr=False)
    """The secret of the token, which also names the token when it is renewed or ended."""
    owner: str
    """The principal that a client has when it logs in by the token."""
    requester: str
    """The principal that asked for the token; empty if the broker does not tell."""
    renewers: tuple[str, ...]
    """The principals besides the owner that may renew and end the token."""
    issued_ms: int
    expires_ms: int
    """The time after which nobody can log in by the token, unless it is renewed before."""
    latest_ms: int
    """The time beyond which no renewal extends the token."""

    @property
    def password(self) -> str:
        """The password with which a client logs in by the token."""
        return base64.b64encode(self.hmac).decode()

    @property
    def jaas_config(self) -> str:
        """The text for `sasl.jaas.config` with which a client logs in by the token."""
        return (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{self.token_id}" password="{self.password}" tokenauth="true";'
        )
