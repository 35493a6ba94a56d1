"""The error that a client raises if its login by SASL fails."""

from ...runtime.errors import MinikafkaError


class SaslError(MinikafkaError):
    """The server refused the login, or sent something that the mechanism does not allow."""
