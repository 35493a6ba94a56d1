"""What this machine can do at most: loopback copy, page-cache write, CRC. Gigabytes a second."""

import os
import socket
import statistics
import tempfile
import threading
import time
from typing import NamedTuple

import crc32c

CHUNK = bytes(1 << 20)
WRITE_CHUNKS = 200
LOOPBACK_CHUNKS = 2048
CRC_ROUNDS = 2000
ROUNDS = 5


class Ceilings(NamedTuple):
    """Bytes a second."""

    loopback: float
    page_cache_write: float
    crc32c: float


def measure() -> Ceilings:
    """Measure all three, the median of some rounds each.

    Not the best: where a host gives memory to its guests page by page, a page-cache write is ten
    times slower on memory that was not used lately, for the ceiling as for everything measured.
    """
    return Ceilings(
        *(
            statistics.median(measure() for _ in range(ROUNDS))
            for measure in (_loopback, _page_cache_write, _crc)
        )
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
