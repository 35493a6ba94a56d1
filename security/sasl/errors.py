"""The error of a login that a client gives up."""

from ...runtime.errors import MinikafkaError


class SaslError(MinikafkaError):
    """The server refused the login, or sent something that the mechanism does not allow."""
