"""A tool asks controllers themselves: any of three will do, and one that is alive is enough."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka import BootstrapError
from minikafka.client.admin.cluster_types import MetadataQuorum
from minikafka.client.admin.controllers import describe_quorum
from minikafka.client.net.address import Address
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.control_keys import ControlKeys

from ..support.cluster import CONTROLLER_ID, Cluster, free_ports, running_cluster

pytestmark = [pytest.mark.slow, pytest.mark.processes]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory: Path = tmp_path_factory.mktemp("controllers")
    with running_cluster(directory, brokers=1, controllers=3) as made:
        yield made


def address(port: int) -> Address:
    return Address("127.0.0.1", port)


async def described(cluster: Cluster, addresses: list[Address]) -> tuple[str, MetadataQuorum]:
    runtime = SystemRuntime("test")
    keys = ControlKeys.open(runtime, None, str(cluster.key_path))
    return await describe_quorum(runtime, addresses, timeout_ms=10_000, keys=keys)


async def test_whoever_is_asked_names_the_active_one(cluster: Cluster) -> None:
    found = [
        await described(cluster, [address(controller.port)]) for controller in cluster.controllers
    ]
    assert len({cluster_id for cluster_id, _ in found}) == 1
    assert len({quorum.leader_id for _, quorum in found}) == 1
    for _, quorum in found:
        ids = [voter.node_id for voter in quorum.voters]
        assert ids == [CONTROLLER_ID, CONTROLLER_ID + 1, CONTROLLER_ID + 2]
        assert [observer.node_id for observer in quorum.observers] == [1]


async def test_those_that_cannot_be_reached_are_passed_over(cluster: Cluster) -> None:
    (nobody,) = free_ports(1)
    addresses = [address(nobody), address(cluster.controllers[0].port)]
    cluster_id, _ = await described(cluster, addresses)
    assert cluster_id


async def test_where_nobody_answers_each_is_named(cluster: Cluster) -> None:
    ports = free_ports(2)
    addresses = [address(port) for port in ports]
    with pytest.raises(BootstrapError) as failed:
        await describe_quorum(SystemRuntime("test"), addresses, timeout_ms=10_000)
    tried = [(attempt.address, attempt.phase) for attempt in failed.value.attempts]
    assert tried == [(f"127.0.0.1:{port}", "connect") for port in ports]
