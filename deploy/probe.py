"""Asks a broker which brokers are alive, with one blocking request and no event loop.

Only the launcher uses it, so that `up` need not import the client library.
"""

import socket

from ..protocol.codec import decode_response_frame, frame_request
from ..protocol.errors import ProtocolError
from ..protocol.messages.metadata import MetadataRequest, MetadataResponse

METADATA_VERSION = 9
CLIENT_ID = "minikafka-up"


def unfenced_brokers(host: str, port: int, timeout_seconds: float) -> frozenset[int]:
    """Ask this broker which brokers are unfenced; an empty set if it does not answer."""
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    try:
        with socket.create_connection((host, port), timeout=timeout_seconds) as connection:
            connection.sendall(b"".join(frame_request(request, METADATA_VERSION, 1, CLIENT_ID)))
            size = int.from_bytes(_read_exactly(connection, 4))
            frame = memoryview(_read_exactly(connection, size))
            _, response = decode_response_frame(MetadataResponse, METADATA_VERSION, frame)
    except (OSError, EOFError, ProtocolError):
        return frozenset()
    return frozenset(broker.node_id for broker in response.brokers)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = connection.recv(count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)
