"""The floor: the least a Kafka-wire broker in Python must do, to measure the real one against.

A bare `BufferedProtocol` server that cuts frames, checks each batch's CRC, stamps it, appends all
batches of one read event with one writev and answers. With `--peers` it is the head of a chain:
each batch is forwarded to every peer and answered when all of them did. It knows one request, made
by `bench.load`, whose batch stands at a fixed place: no decoding, no metadata, no error paths.

    python -m bench.floor --fd 3 --log FILE [--batch-at N] [--peers PORT ...]
"""

import argparse
import asyncio
import os
import struct
from typing import cast

import crc32c
import uvloop

BUFFER_BYTES = 4 << 20
LARGE_BYTES = 64 << 10
ROOM_BYTES = 5 << 18
"""More than the largest request: below this much free space what is left moves to the front."""


class Peer(asyncio.Protocol):
    """A follower: counts what it acknowledged, in order."""

    def __init__(self, server: "Floor") -> None:
        self.server = server
        self.pending = 0
        self.acknowledged = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.pending += len(data)
        count, self.pending = divmod(self.pending, len(self.server.response))
        self.acknowledged += count
        self.server.answer()


class Floor(asyncio.BufferedProtocol):
    """One connection; `batch_at` is where the batch begins in a request, after the size."""

    def __init__(self, log_fd: int, batch_at: int, response: bytes, peers: list[Peer]) -> None:
        self.log_fd = log_fd
        self.batch_at = batch_at
        self.response = response
        self.peers = peers
        self.buffer = bytearray(BUFFER_BYTES)
        self.start = self.end = 0
        self.next_offset = self.size = 0
        self.received = self.answered = 0
        self.gone: asyncio.Future[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.gone is not None and not self.gone.done():
            self.gone.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        view = memoryview(self.buffer)
        have = self.end - self.start
        if have == 0:
            self.start = self.end = 0
            return view
        if have >= 4:
            frame_end = self.start + 4 + int.from_bytes(view[self.start : self.start + 4], "big")
            if frame_end - self.end >= LARGE_BYTES and frame_end <= BUFFER_BYTES:
                # Just the rest of a large request: the next one begins at the front again, where
                # the cache is warm, and nothing has to be moved.
                return view[self.end : frame_end]
        if self.end > BUFFER_BYTES - ROOM_BYTES:
            view[:have] = view[self.start : self.end]
            self.start, self.end = 0, have
        return view[self.end :]

    def buffer_updated(self, nbytes: int) -> None:
        self.end += nbytes
        view = memoryview(self.buffer)
        batches: list[memoryview] = []
        pos = self.start
        while self.end - pos >= 4:
            stop = pos + 4 + int.from_bytes(view[pos : pos + 4], "big")
            if stop > self.end:
                break
            batch = view[pos + self.batch_at : stop]
            (stored,) = struct.unpack_from(">I", batch, 17)
            if crc32c.crc32c(batch[21:]) != stored:
                raise ValueError("a batch arrived broken")
            (count,) = struct.unpack_from(">i", batch, 57)
            struct.pack_into(">q", batch, 0, self.next_offset)
            struct.pack_into(">i", batch, 12, 1)
            self.next_offset += count
            batches.append(batch)
            if self.peers:
                frame = bytes(view[pos:stop])
                for peer in self.peers:
                    assert peer.transport is not None
                    peer.transport.write(frame)
            pos = stop
        self.start = pos
        for first in range(0, len(batches), 1024):
            some = batches[first : first + 1024]
            written = os.pwritev(self.log_fd, some, self.size)
            assert written == sum(map(len, some)), "a short write; the floor does not resume"
            self.size += written
        self.received += len(batches)
        if self.peers:
            self.answer()
        elif batches:
            self.transport.write(self.response * len(batches))

    def answer(self) -> None:
        """Answer what every peer has acknowledged."""
        done = min(self.received, *(peer.acknowledged for peer in self.peers))
        if done > self.answered:
            self.transport.write(self.response * (done - self.answered))
            self.answered = done


async def serve(args: argparse.Namespace) -> None:
    """Serve one load generator until it goes away."""
    loop = asyncio.get_running_loop()
    log_fd = os.open(args.log, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o644)
    peers: list[Peer] = []
    response = (args.response_size - 4).to_bytes(4, "big") + bytes(args.response_size - 4)
    floor = Floor(log_fd, args.batch_at, response, peers)
    for port in args.peers:
        _, peer = await loop.create_connection(lambda: Peer(floor), "127.0.0.1", port)
        peers.append(peer)
    gone = loop.create_future()
    floor.gone = gone
    server = await loop.create_server(lambda: floor, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await gone
    server.close()
    os.close(log_fd)


def main() -> None:
    """Run one server of the floor."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", required=True)
    parser.add_argument("--batch-at", type=int, required=True)
    parser.add_argument("--response-size", type=int, required=True)
    parser.add_argument("--peers", type=int, nargs="*", default=[])
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
