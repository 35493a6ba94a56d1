"""The proxy behind real sockets: bodies that are refused halfway, clients that leave."""

import asyncio
import json
import socket

import pytest

from minikafka.web import serving

from ...client.fake_broker import FakeCluster
from ...client.test_consumer import fill
from .lab import WITHIN_S, Proxy, proxy, served
from .test_produce import v3

LINE = b'{"value": {"type": "JSON", "data": 1}}\n'


def head(method: str, target: str, *headers: str) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *headers, "", ""]
    return "\r\n".join(lines).encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


async def connect(listener: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = listener.getsockname()[1]  # type: ignore[attr-defined]
    return await asyncio.open_connection("127.0.0.1", port)


async def test_a_body_that_is_too_long_is_refused_and_its_connection_ends() -> None:
    settings = {"minikafka.rest.max.request.bytes": "1024"}
    listener = serving.listen("127.0.0.1", 0)
    async with FakeCluster() as cluster, proxy(cluster.bootstrap, settings=settings) as one:
        cluster.create("t")
        async with served(one, listener), asyncio.timeout(WITHIN_S):
            reader, writer = await connect(listener)
            kind = "Content-Type: application/vnd.kafka.json.v2+json"
            writer.write(head("POST", "/topics/t", kind, "Content-Length: 1000000"))
            writer.write(b"x" * 2_000)
            answer = await reader.read()
            writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"error_code":413' in answer


@pytest.mark.parametrize("sent", [b"", b"GET / HT", head("GET", "/") + b"GET / HT"])
async def test_a_connection_without_a_request_ends(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_S", 0.2)
    listener = serving.listen("127.0.0.1", 0)
    async with (
        FakeCluster() as cluster,
        proxy(cluster.bootstrap) as one,
        served(one, listener),
        asyncio.timeout(WITHIN_S),
    ):
        reader, writer = await connect(listener)
        complete, end, begun = sent.rpartition(b"\r\n\r\n")
        if complete:
            writer.write(complete + end)
            await reader.readuntil(b"{}")
        for byte in begun:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)
        assert await reader.read() == b""
        writer.close()


def test_a_peer_that_is_gone_without_a_word_is_noticed() -> None:
    listener = serving.listen("127.0.0.1", 0)
    with listener, socket.create_connection(listener.getsockname()), listener.accept()[0] as one:
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 120_000


async def test_records_go_in_and_acknowledgements_out_over_one_request() -> None:
    listener = serving.listen("127.0.0.1", 0)
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        cluster.create("t")
        target = await v3(one.http, "/topics/t/records")
        async with served(one, listener), asyncio.timeout(WITHIN_S):
            reader, writer = await connect(listener)
            kind = "Content-Type: application/x-ndjson"
            writer.write(head("POST", target, kind, "Transfer-Encoding: chunked"))
            for n in range(3):
                writer.write(chunk(LINE))
                answer = await reader.readuntil(b"}}\n")
                assert b'"offset":%d' % n in answer
            writer.write(chunk(b""))
            assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")
            writer.close()


async def left(one: Proxy, listener: object) -> None:
    """Ask until the proxy has no stream any more."""
    while one.desk.streams:
        reader, writer = await connect(listener)
        writer.write(head("GET", "/", "Connection: close"))
        await reader.read()
        writer.close()


async def test_streams_end_when_their_clients_leave() -> None:
    listener = serving.listen("127.0.0.1", 0)
    async with FakeCluster() as cluster, proxy(cluster.bootstrap) as one:
        fill(cluster.create("t").partitions[0], 3)
        target = await v3(one.http, "/topics/t/partitions/0/records?follow=1&offset=0")
        records = await v3(one.http, "/topics/t/records")
        async with served(one, listener), asyncio.timeout(WITHIN_S):
            reader, writer = await connect(listener)
            writer.write(head("GET", target))
            line = (await reader.readuntil(b"}\n")).rpartition(b"\r\n")[2]
            assert json.loads(line)["offset"] == 0
            assert one.desk.streams == 1
            writer.close()
            await left(one, listener)
            reader, writer = await connect(listener)
            kind = "Content-Type: application/json"
            writer.write(head("POST", records, kind, "Transfer-Encoding: chunked") + chunk(LINE))
            await reader.readuntil(b"}}\n")
            assert one.desk.streams == 1
            writer.close()
            await left(one, listener)
