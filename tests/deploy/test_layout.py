import socket
import stat
from pathlib import Path

import pytest

from minikafka.deploy.layout import (
    HOST,
    Layout,
    Node,
    free_ports,
    key_settings,
    read_properties,
    write_properties,
)
from minikafka.runtime.errors import ConfigError
from minikafka.security.control_seal import keyring_of


def test_ports_follow_the_first() -> None:
    layout = Layout.plan(Path("/data"), brokers=3, controllers=1, port=9092)
    assert layout.bootstrap == "127.0.0.1:9092,127.0.0.1:9093,127.0.0.1:9094"
    assert [(n.name, n.port) for n in layout.nodes] == [
        ("controller-3001", 9095),
        ("broker-1", 9092),
        ("broker-2", 9093),
        ("broker-3", 9094),
    ]


def test_every_node_is_told_of_every_voter(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=2, controllers=3, port=9092)
    layout.write({}, {})
    assert [node.name for node in layout.controllers] == [
        "controller-3001",
        "controller-3002",
        "controller-3003",
    ]
    voters = "3001@127.0.0.1:9094,3002@127.0.0.1:9095,3003@127.0.0.1:9096"
    for node in layout.nodes:
        assert read_properties(node)["controller.quorum.voters"] == voters
    assert Layout.read(tmp_path) == layout


@pytest.mark.parametrize(("brokers", "copies", "in_sync"), [(1, 1, 1), (2, 2, 2), (5, 3, 2)])
def test_replication_defaults_fit_the_brokers(
    tmp_path: Path, brokers: int, copies: int, in_sync: int
) -> None:
    layout = Layout.plan(tmp_path, brokers, controllers=1, port=9092)
    layout.write({}, {})
    for node in layout.nodes:
        properties = read_properties(node)
        assert properties["default.replication.factor"] == str(copies)
        assert properties["min.insync.replicas"] == str(in_sync)
        assert properties["offsets.topic.replication.factor"] == str(copies)
        assert properties["transaction.state.log.replication.factor"] == str(copies)
        assert properties["transaction.state.log.min.isr"] == str(in_sync)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=12, controllers=1, port=0)
    layout.write({"log.segment.bytes": "1048576"}, {})
    assert Layout.read(tmp_path) == layout
    assert read_properties(layout.brokers[0])["log.segment.bytes"] == "1048576"
    assert "log.segment.bytes" not in read_properties(layout.controllers[0])


def test_s_55_only_its_user_reads_a_file_that_may_hold_passwords(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=1, controllers=1, port=0)
    node = layout.brokers[0]
    node.directory.mkdir()
    node.properties_path.with_suffix(".new").write_text("left by a start that was killed")
    layout.write({"ssl.key.password": "hunter2"}, {})
    assert stat.S_IMODE(node.properties_path.stat().st_mode) == 0o600
    assert read_properties(node)["ssl.key.password"] == "hunter2"


def test_an_empty_or_missing_directory_holds_no_cluster(tmp_path: Path) -> None:
    assert Layout.read(tmp_path) is None
    assert Layout.read(tmp_path / "missing") is None


def test_half_a_cluster_is_refused(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=1, controllers=1, port=9092)
    layout.write({}, {})
    layout.controllers[0].properties_path.unlink()
    with pytest.raises(ConfigError, match=r"holds no controller's controller\.properties"):
        Layout.read(tmp_path)


def test_a_file_without_a_port_is_refused(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=1, controllers=1, port=9092)
    layout.write({}, {})
    write_properties(layout.brokers[0], {"node.id": "1"})
    with pytest.raises(ConfigError, match="no port in"):
        Layout.read(tmp_path)


def test_ports_beyond_the_last_are_refused() -> None:
    with pytest.raises(ConfigError, match="up to 65537"):
        Layout.plan(Path("/data"), brokers=3, controllers=1, port=65_534)


def test_free_ports_are_distinct_and_free_for_tcp_and_udp() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports[:3]:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            with socket.socket(socket.AF_INET, kind) as sock:
                sock.bind((HOST, port))


def test_metrics_are_served_on_the_ports_after_those_of_the_nodes(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=2, controllers=1, port=9092, metrics=True)
    assert [(node.name, node.metrics) for node in layout.nodes] == [
        ("controller-3001", "127.0.0.1:9097"),
        ("broker-1", "127.0.0.1:9095"),
        ("broker-2", "127.0.0.1:9096"),
    ]
    layout.write({}, {})
    assert Layout.read(tmp_path) == layout
    assert read_properties(layout.brokers[0])["metrics.listener"] == "127.0.0.1:9095"
    with pytest.raises(ConfigError, match="3 nodes need ports up to 65539"):
        Layout.plan(tmp_path, brokers=2, controllers=1, port=65_534, metrics=True)


def key_of(node: Node) -> str:
    return read_properties(node)["control.psk.file"]


def test_a_new_cluster_has_a_key_that_only_its_user_can_read(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=2, controllers=1, port=9092)
    layout.write({}, {})
    (path,) = {key_of(node) for node in layout.nodes}
    assert path == str(tmp_path / "control.key")
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
    keys = Path(path).read_text()
    assert len(keyring_of(keys)) == 1
    layout.write({}, {})
    assert Path(path).read_text() == keys


def test_a_cluster_made_without_a_key_gets_one_unless_it_says_otherwise(tmp_path: Path) -> None:
    node = Layout.plan(tmp_path, brokers=1, controllers=1, port=9092).brokers[0]
    assert key_settings(node, {"control.security": "none"}) == {}
    assert not node.key_path.exists()
    assert key_settings(node, {}) == {"control.psk.file": str(node.key_path)}
    assert len(keyring_of(node.key_path.read_text())) == 1


def test_a_moved_cluster_takes_its_own_key_along_and_no_other(tmp_path: Path) -> None:
    layout = Layout.plan(tmp_path, brokers=1, controllers=1, port=9092)
    layout.write({}, {})
    node = layout.brokers[0]
    here = {"control.psk.file": str(node.key_path)}
    assert key_settings(node, {"control.psk.file": "/before/control.key"}) == here
    assert key_settings(node, here) == {}
    assert key_settings(node, {"control.psk.file": "/etc/minikafka/key"}) == {}
    node.key_path.unlink()
    assert key_settings(node, {"control.psk.file": "/before/control.key"}) == {}
