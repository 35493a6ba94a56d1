"""What consumers subscribe to, read off what they say to each other.

A broker needs it for two things only: which offsets are in use, and whether a static member that
came back still reads the same.
"""

from ....protocol.consumer_protocol import decode_subscription


def topics_of(metadata: bytes) -> tuple[str, ...]:
    """Topics in a consumer's metadata, sorted; RemoteProtocolError where it is no such thing."""
    return tuple(sorted(decode_subscription(metadata).topics))
