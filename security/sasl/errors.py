"""The error of a login that this end gives up."""

from ...runtime.errors import MinikafkaError


class SaslError(MinikafkaError):
    """The other end sent something that the mechanism does not allow."""
