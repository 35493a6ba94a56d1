"""Sends one request to a broker over a blocking socket, exactly as given, and reads the answer."""

import socket
from typing import TypeVar

from minikafka.protocol import codec
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from minikafka.protocol.records.records import build

T = TypeVar("T")
PRODUCE_VERSION = 9


def ask(address: str, request: object, answer: type[T], version: int) -> T:
    """Send a request to HOST:PORT and wait for its answer."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=15) as connection:
        connection.sendall(b"".join(codec.frame_request(request, version, 1, "test")))
        size = int.from_bytes(_exactly(connection, 4), "big")
        return codec.decode_response_frame(answer, version, _exactly(connection, size))[1]


def produce(
    address: str, topic: str, values: list[bytes], *, acks: int, timeout_ms: int = 5000
) -> PartitionProduceResponse:
    """Produce one batch to partition 0, and return the answer."""
    data = PartitionProduceData(index=0, records=bytes(build([(1, None, v) for v in values])))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    response = ask(address, request, ProduceResponse, PRODUCE_VERSION)
    return response.responses[0].partition_responses[0]


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        assert more, "the broker closed the connection"
        received += more
    return received
