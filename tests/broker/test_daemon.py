"""minikafka-broker as a process: what it refuses, what it survives, how it ends."""

import os
import signal
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka.protocol.codec import frame_request
from minikafka.protocol.messages.api_versions import ApiVersionsRequest

from ..support.cluster import Cluster, Daemon, NotReady, free_ports, running_cluster, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path) as one:
        yield one


def refused(daemon: Daemon, **overrides: str) -> str:
    """Start a broker that must not start: exit code 2 and one line, which is returned."""
    before = len(daemon.log())
    daemon.launch(**overrides)
    with pytest.raises(NotReady):
        daemon.wait_until_ready()
    assert daemon.wait() == 2
    (line,) = daemon.log()[before:].strip().splitlines()
    return line


def ask_versions(address: tuple[str, int]) -> bytes:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    with socket.create_connection(address, timeout=10) as one:
        one.sendall(b"".join(frame_request(request, 4, 1, "t")))
        return one.recv(4096)


def test_bad_configuration_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        broker = cluster.broker(1)
        line = refused(broker, lisseners="PLAINTEXT://:1")
        assert "lisseners" in line
        assert "did you mean listeners?" in line
        assert not broker.data.exists(), "refused before anything was opened"


def test_what_belongs_to_another_is_refused(tmp_path: Path) -> None:
    with running_cluster(tmp_path, broker_settings={"num.io.threads": "8"}) as cluster:
        broker = cluster.broker(1)
        lines = [each for each in broker.log().splitlines() if "num.io" in each]
        assert [("WARNING" in each) for each in lines] == [True]
        del broker.settings["num.io.threads"]
        refuse_others(cluster, tmp_path)


def refuse_others(cluster: Cluster, tmp_path: Path) -> None:
    broker = cluster.broker(1)

    def other(name: str, node_id: int, **settings: str) -> Daemon:
        given = {**broker.settings, **settings}
        (port,) = free_ports(1)
        return Daemon("broker", node_id, tmp_path / name, given, port=port)

    data = str(broker.data)
    line = refused(other("locked", 1), log_dirs=data)
    assert f"log.dirs={data}: locked by another process" in line
    taken = f"PLAINTEXT://{broker.address}"
    line = refused(other("port", 2), listeners=taken)
    assert f"listeners={taken}" in line
    assert "in use" in line
    broker.kill()
    line = refused(other("node", 2), log_dirs=data)
    assert f"log.dirs={data}: belongs to node.id=1" in line
    with running_cluster(tmp_path / "foreign") as foreign:
        quorum = foreign.broker(1).settings["controller.quorum.voters"]
        key = str(foreign.key_path)
        broker.launch(controller_quorum_voters=quorum, control_psk_file=key)
        with pytest.raises(NotReady):
            broker.wait_until_ready()
        assert broker.wait() == 2
        last = broker.log().strip().splitlines()[-1]
        assert "log.dirs=" in last
        assert "cluster" in last
    broker.start()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        (tmp_path / "closed").mkdir(mode=0o500)
        line = refused(cluster.broker(1), log_dirs=str(tmp_path / "closed" / "data"))
        assert "cannot be used" in line


def test_garbage_closes_its_connection_and_everyone_else_goes_on(cluster: Cluster) -> None:
    broker = cluster.broker(1)
    address = ("127.0.0.1", broker.port)
    with socket.create_connection(address) as half:
        half.sendall(struct.pack(">i", 5000) + b"x" * 100)
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", struct.pack(">i", -5), b"\x7f" * 64):
            with socket.create_connection(address, timeout=10) as bad:
                bad.sendall(garbage)
                assert bad.recv(1) == b""
        assert len(ask_versions(address)) > 100
    lines = [line for line in broker.log().splitlines() if "closed:" in line]
    assert len(lines) == 1, "of one kind the first is said"
    assert broker.is_running


def test_it_ends_cleanly_on_sigterm_and_when_its_launcher_is_gone(cluster: Cluster) -> None:
    broker = cluster.broker(1)
    mark = broker.data / ".kafka_cleanshutdown"
    assert not mark.exists()
    assert broker.stop() == 0
    assert mark.exists()
    broker.start()
    assert not mark.exists(), "a crash from here on is not a clean stop"
    os.close(broker._lifeline)
    broker._lifeline = -1
    assert broker.wait() == 0
    assert mark.exists()


def test_it_stops_in_time_though_the_controller_is_gone(cluster: Cluster) -> None:
    cluster.controller.kill()
    assert cluster.broker(1).stop() == 0


def test_it_serves_on_while_the_controller_is_away_and_finds_it_again(cluster: Cluster) -> None:
    broker = cluster.broker(1)
    cluster.controller.kill()
    assert len(ask_versions(("127.0.0.1", broker.port))) > 100
    assert broker.log().count("controller is at") == 1
    cluster.controller.start()
    wait_until(lambda: broker.log().count("controller is at") == 2)
    assert broker.is_running


def test_a_stop_while_it_waits_for_a_controller(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        broker = cluster.broker(1).launch()
        wait_until(lambda: "controller" in broker.log())
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
