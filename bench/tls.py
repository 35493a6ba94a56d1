"""The cost of TLS: what a broker takes in and gives out with it, as a share of that without.

Beside it a bare server on uvloop (`tls_floor`) is sent as many bytes and answers as many, with TLS
and without, and does nothing else. Rounds of the four take turns, and each figure is a median. The
load generator has one connection, on a core of its own.

Two figures have a target. The first is the share of its throughput that TLS leaves the broker, of
the share that it leaves the bare server. A broker that writes to a log is slower than the bare
server in any case, and so loses less of its throughput. So the second is stricter: the CPU of the
broker's own work without TLS and what TLS adds to the bare server, of what the broker needs with
TLS.
"""

import datetime
import ipaddress
import ssl
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from minikafka import Admin, NewTopic
from minikafka.deploy.layout import free_ports
from minikafka.deploy.local_cluster import LocalCluster

from .load import replay
from .meters import cpu_seconds
from .requests import check_produced, fetch, produce

HOST = "127.0.0.1"
ROUNDS = 9
SECONDS = 3.0
BYTES = 200_000_000
"""Of one round at most, one way."""
TARGET = 0.8
TARGETED = "1 MB"
RECORD_BYTES = 1000


class Case(NamedTuple):
    """Which way the bytes go, how many in a batch, and how many requests are in flight."""

    way: str
    size: str
    batch_bytes: int
    window: int


CASES = (
    Case("produce", TARGETED, 1_000_000, 5),
    Case("produce", "64 KB", 64_000, 8),
    Case("fetch", TARGETED, 1_000_000, 2),
    Case("fetch", "64 KB", 64_000, 2),
)


class Flow(NamedTuple):
    """One round of one server."""

    megabytes_per_second: float
    cpu_seconds_per_gigabyte: float
    """CPU of the server."""


class Found(NamedTuple):
    """The medians of one case; rates are megabytes a second, CPU is seconds a gigabyte."""

    way: str
    size: str
    plain: float
    tls: float
    plain_cpu: float
    tls_cpu: float
    bare_plain: float
    bare_tls: float
    bare_plain_cpu: float
    bare_tls_cpu: float

    @property
    def of_bare(self) -> float:
        """The share of throughput that TLS leaves, of the share that it leaves the bare server."""
        return (self.tls / self.plain) / (self.bare_tls / self.bare_plain)

    @property
    def of_ideal(self) -> float:
        """The CPU of both ideals together, of what the broker needs with TLS."""
        return (self.plain_cpu + self.bare_tls_cpu - self.bare_plain_cpu) / self.tls_cpu


class Server(NamedTuple):
    """A server, and how it is reached."""

    address: tuple[str, int]
    context: ssl.SSLContext | None
    pid: int


def measure() -> Iterator[Found]:
    """Measure case by case."""
    with tempfile.TemporaryDirectory(prefix="minikafka-tls-") as folder, ExitStack() as stack:
        pem = _certificate(Path(folder))
        context = ssl.create_default_context(cafile=pem)
        plain, secure = free_ports(2)
        listeners = f"PLAINTEXT://{HOST}:{plain},SECURE://{HOST}:{secure}"
        settings = {
            "listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.location": pem,
        }
        cluster = stack.enter_context(LocalCluster(brokers=1, port=plain, broker_config=settings))
        pid = cluster.pids["broker-1"]
        brokers = Server((HOST, plain), None, pid), Server((HOST, secure), context, pid)
        for case in CASES:
            yield _case(cluster, case, brokers, pem)


@contextmanager
def _topic(cluster: LocalCluster, case: Case) -> Iterator[bytes]:
    """Make a topic and give the request of a case; delete it, so that its memory is used again."""
    topic = f"{case.way}-{case.batch_bytes}"
    request = produce(topic, record_bytes=RECORD_BYTES, batch_bytes=case.batch_bytes, acks=1)
    node = cluster.node("broker-1")
    with Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
        made = replay((node.host, node.port), request.frame, window=1, requests=1, seconds=SECONDS)
        check_produced(made.last_response)
        yield request.frame if case.way == "produce" else fetch(topic, 0, case.batch_bytes)
        admin.delete_topics([topic])


def _case(cluster: LocalCluster, case: Case, brokers: tuple[Server, Server], pem: str) -> Found:
    with _topic(cluster, case) as request:
        once = replay(brokers[0].address, request, window=1, requests=1, seconds=SECONDS)
    sizes = len(request), len(once.last_response) + 4
    assert max(sizes) > case.batch_bytes / 2, "an answer without records"
    arguments = ("--request-bytes", str(sizes[0]), "--response-bytes", str(sizes[1]))
    rounds: list[list[Flow]] = []
    with _bare(*arguments) as plain, _bare(*arguments, "--pem", pem) as secure:
        bare = Server(plain[0], None, plain[1]), Server(secure[0], brokers[1].context, secure[1])
        for _ in range(ROUNDS):
            found = []
            for server in brokers:
                with _topic(cluster, case) as request:
                    found.append(_round(case, server, request))
            rounds.append(found + [_round(case, server, request) for server in bare])
    each = [
        Flow(*map(statistics.median, zip(*flows, strict=True)))
        for flows in zip(*rounds, strict=True)
    ]
    rates = [flow.megabytes_per_second for flow in each]
    costs = [flow.cpu_seconds_per_gigabyte for flow in each]
    return Found(case.way, case.size, *rates[:2], *costs[:2], *rates[2:], *costs[2:])


def _round(case: Case, server: Server, request: bytes) -> Flow:
    before = cpu_seconds(server.pid)
    done = replay(
        server.address,
        request,
        window=case.window,
        requests=BYTES // case.batch_bytes,
        seconds=SECONDS,
        context=server.context,
    )
    used = cpu_seconds(server.pid) - before
    moved = done.requests * max(len(request), len(done.last_response))
    return Flow(moved / done.seconds / 1e6, used / moved * 1e9)


@contextmanager
def _bare(*arguments: str) -> Iterator[tuple[tuple[str, int], int]]:
    """Run a bare server; give its address and its process id."""
    command = [sys.executable, "-m", "bench.tls_floor", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield (HOST, int(process.stdout.readline())), process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _certificate(folder: Path) -> str:
    """Write a certificate for this host that signs itself, with its key; return the path."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bench")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    path = folder / "bench.pem"
    path.touch(0o600)
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + text)
    return str(path)


HEADER = (
    *("case", "MB/s", "with TLS", "share", "bare MB/s", "with TLS", "share"),
    *("CPU s/GB", "with TLS", "bare CPU s/GB", "with TLS", "of ideal"),
)


def row(found: dict[str, Any]) -> list[str]:
    """Return the cells of one case."""
    case = Found(**found)
    rates = (case.plain, case.tls), (case.bare_plain, case.bare_tls)
    costs = case.plain_cpu, case.tls_cpu, case.bare_plain_cpu, case.bare_tls_cpu
    cells = [f"{case.way}, {case.size}"]
    for plain, tls in rates:
        cells += [f"{plain:.0f}", f"{tls:.0f}", f"{tls / plain:.2f}"]
    return [*cells, *(f"{cost:.2f}" for cost in costs), f"{case.of_ideal:.2f}"]


def checks(results: dict[str, Any]) -> list[tuple[str, str, float, bool]]:
    """Compare with the target; nothing where TLS was not measured."""
    found = [Found(**row) for row in results.get("tls", ())]
    figures = [
        (f"{case.way} with TLS, {case.size}: {what}", ratio)
        for case in found
        if case.size == TARGETED
        for what, ratio in (
            ("share of throughput, of the bare server's share", case.of_bare),
            ("CPU without it and of bare TLS, of that with it", case.of_ideal),
        )
    ]
    return [(what, f"≥ {TARGET}", ratio, ratio >= TARGET) for what, ratio in figures]


def section(results: dict[str, Any]) -> list[str]:
    """Write the section of the page, if TLS was measured."""
    if "tls" not in results:
        return []
    return [
        "",
        "## TLS",
        "",
        "One connection, one copy, acks=1. A share is the throughput with TLS of that without.",
        "The bare server on uvloop (`bench/tls_floor.py`) is sent as many bytes and answers as",
        "many. CPU is of the server. Ideal is the broker's CPU without TLS, and what TLS adds to",
        "the bare server's.",
        "",
        f"| {' | '.join(HEADER)} |",
        "|" + "---|" * len(HEADER),
        *(f"| {' | '.join(row(found))} |" for found in results["tls"]),
    ]
