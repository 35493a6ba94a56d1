"""What this machine can do at most: loopback copy, page-cache write, CRC. Gigabytes a second."""

import os
import socket
import tempfile
import threading
import time
from typing import NamedTuple

import crc32c

CHUNK = bytes(1 << 20)
WRITE_CHUNKS = 512
LOOPBACK_CHUNKS = 2048
CRC_ROUNDS = 2000


class Ceilings(NamedTuple):
    """Bytes a second."""

    loopback: float
    page_cache_write: float
    crc32c: float


def measure() -> Ceilings:
    """Measure all three; the best of three rounds each, for a ceiling is what is possible."""
    return Ceilings(
        max(_loopback() for _ in range(3)),
        max(_page_cache_write() for _ in range(3)),
        max(_crc() for _ in range(3)),
    )


def _loopback() -> float:
    server = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(server.getsockname())
    receiver, _ = server.accept()
    total = LOOPBACK_CHUNKS * len(CHUNK)

    def send() -> None:
        for _ in range(LOOPBACK_CHUNKS):
            sender.sendall(CHUNK)

    buffer = bytearray(len(CHUNK))
    thread = threading.Thread(target=send)
    start = time.perf_counter()
    thread.start()
    received = 0
    while received < total:
        received += receiver.recv_into(buffer)
    elapsed = time.perf_counter() - start
    thread.join()
    for each in (sender, receiver, server):
        each.close()
    return total / elapsed


def _page_cache_write() -> float:
    with tempfile.NamedTemporaryFile() as file:
        start = time.perf_counter()
        for _ in range(WRITE_CHUNKS):
            os.write(file.fileno(), CHUNK)
        return WRITE_CHUNKS * len(CHUNK) / (time.perf_counter() - start)


def _crc() -> float:
    start = time.perf_counter()
    for _ in range(CRC_ROUNDS):
        crc32c.crc32c(CHUNK)
    return CRC_ROUNDS * len(CHUNK) / (time.perf_counter() - start)
