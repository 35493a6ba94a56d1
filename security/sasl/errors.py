"""The errors of logins by SASL, and of the tokens that some of them carry."""

from ...runtime.errors import MinikafkaError


class SaslError(MinikafkaError):
    """The server refused the login, or sent something that the mechanism does not allow."""


class TokenError(MinikafkaError):
    """A token proves nothing, or a set of keys cannot be used; the text says why.

    The text is for the log of whoever checked it, and never for the client.
    """


class UnknownKey(TokenError):
    """A token is signed with a key that is not in the set; the issuer may have a newer set."""


class NoToken(MinikafkaError):
    """There is no token to log in with at the moment; it may be asked for again."""
