"""The bare server that TLS is measured beside: it counts the bytes of requests, and answers.

On uvloop, with TLS if it has a certificate. It reads nothing of what it is sent.

    python -m bench.tls_floor --request-bytes N --response-bytes M [--pem FILE]
"""

import argparse
import asyncio
import ssl
from typing import cast

import uvloop

BUFFER_BYTES = 256 << 10


class Bare(asyncio.BufferedProtocol):
    """One connection: a response for every so many bytes."""

    def __init__(self, request_bytes: int, response: bytes) -> None:
        self.request_bytes = request_bytes
        self.response = response
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        self.received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        count, self.received = divmod(self.received + nbytes, self.request_bytes)
        for _ in range(count):
            self.transport.write(self.response)


async def serve(args: argparse.Namespace) -> None:
    """Serve until this process is ended."""
    response = (args.response_bytes - 4).to_bytes(4, "big") + bytes(args.response_bytes - 4)
    context = None
    if args.pem is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(args.pem)
    server = await asyncio.get_running_loop().create_server(
        lambda: Bare(args.request_bytes, response), "127.0.0.1", 0, ssl=context
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    """Run one server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--request-bytes", type=int, required=True)
    parser.add_argument("--response-bytes", type=int, required=True)
    parser.add_argument("--pem")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
