"""The REST proxy: records a second that are written through it, v2 in batches of 100."""

import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Any, Final, NamedTuple

from minikafka import Admin as SyncAdmin
from minikafka import NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .meters import cpu_seconds

TOPIC: Final = "rest"
BATCH: Final = 100
VALUE: Final = {"flight": 4711, "to": "OSL", "note": "x" * 60}
CONNECTIONS: Final = 4
SECONDS: Final = 5.0
ROUNDS: Final = 3
TARGET: Final = 20_000


class Written(NamedTuple):
    """One round: records a second in all connections, and cores of the proxy."""

    records_per_second: float
    proxy_cores: float


def measure() -> Written:
    """Return the median round; the proxy, three brokers and this client share the machine."""
    with LocalCluster(brokers=3) as cluster:
        with SyncAdmin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 6, 3)])
        command = [sys.executable, "-m", "minikafka", "rest", "--listen", "127.0.0.1:0"]
        command += ["--bootstrap-server", cluster.bootstrap, "--until-input-ends"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as proxy:
            assert proxy.stdout is not None
            port = int(proxy.stdout.readline().rpartition(":")[2])
            rounds = [asyncio.run(_round(port, proxy.pid)) for _ in range(ROUNDS)]
            proxy.terminate()
    middle = statistics.median(one.records_per_second for one in rounds)
    return next(one for one in rounds if one.records_per_second == middle)


async def _round(port: int, pid: int) -> Written:
    body = json.dumps({"records": [{"key": str(n), "value": VALUE} for n in range(BATCH)]})
    head = (
        f"POST /topics/{TOPIC} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/vnd.kafka.json.v2+json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    request = (head + body).encode()
    await _write(port, request, time.perf_counter() + 1)
    began, spent = time.perf_counter(), cpu_seconds(pid)
    counts = await asyncio.gather(
        *(_write(port, request, began + SECONDS) for _ in range(CONNECTIONS))
    )
    took = time.perf_counter() - began
    return Written(sum(counts) * BATCH / took, (cpu_seconds(pid) - spent) / took)


async def _write(port: int, request: bytes, until: float) -> int:
    """Send the request again and again until a time; return how many were answered in full."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    while time.perf_counter() < until:
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert b" 200 " in head, head
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        answer = await reader.readexactly(length)
        assert answer.count(b'"error_code":null') == BATCH, answer[:500]
        count += 1
    writer.close()
    await writer.wait_closed()
    return count


# The page.


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Compare with the target; nothing where the proxy was not measured."""
    found = results.get("rest")
    if found is None:
        return []
    rate = found["records_per_second"]
    name = f"REST proxy, records written a second in requests of {BATCH}"
    return [(name, f"≥ {TARGET:,}", rate, rate >= TARGET)]


def section(results: dict[str, Any]) -> list[str]:
    """Write the proxy's part of the page."""
    found = results.get("rest")
    if found is None:
        return []
    rate, cores = found["records_per_second"], found["proxy_cores"]
    return [
        "",
        "## REST proxy",
        "",
        f"One proxy, {CONNECTIONS} connections that each wait for the answer to {BATCH} records as "
        "JSON,",
        f"acks=all on three brokers of this machine: {rate:,.0f} records/s with {cores:.2f} cores",
        f"of the proxy, so {rate / cores:,.0f} records for each second of its CPU.",
    ]
