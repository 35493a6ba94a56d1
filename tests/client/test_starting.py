"""Each client starts once, whoever asks for it and how often."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from minikafka.aio import Admin, Consumer, Producer
from minikafka.client.errors import BootstrapError, ClientClosed
from minikafka.client.metadata import Metadata
from minikafka.protocol.api import ApiKey

from .fake_broker import FakeCluster, Silence
from .test_producer import first_times

Client = Admin | Consumer[bytes, bytes] | Producer[bytes, bytes]
CLIENTS = pytest.mark.parametrize("make", [Admin, Consumer, Producer])


def refreshing() -> int:
    """How many views of a cluster are kept fresh on this loop."""
    return sum(task.get_name() == "metadata" for task in asyncio.all_tasks())


@CLIENTS
async def test_two_starts_at_once_are_one(make: Callable[..., Client]) -> None:
    async with FakeCluster() as cluster:
        client = make(cluster.bootstrap)
        await asyncio.gather(client.start(), client.start())
        assert refreshing() == 1
        await client.close()
        assert refreshing() == 0


@CLIENTS
async def test_a_start_that_is_given_up_does_not_disturb_the_one_it_waits_for(
    make: Callable[..., Client],
) -> None:
    async with FakeCluster() as cluster:
        client = make(cluster.bootstrap)
        starting, other = (asyncio.create_task(client.start()) for _ in range(2))
        await asyncio.sleep(0)
        other.cancel()
        await starting
        assert refreshing() == 1
        await client.close()


@CLIENTS
async def test_a_client_that_was_closed_while_it_started_is_not_started(
    make: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = Metadata.start

    async def reach_and_be_closed(metadata: Metadata) -> None:
        await reach(metadata)
        await client.close()

    monkeypatch.setattr(Metadata, "start", reach_and_be_closed)
    async with FakeCluster() as cluster:
        client = make(cluster.bootstrap)
        with pytest.raises(ClientClosed):
            await client.start()
        assert refreshing() == 0


@CLIENTS
async def test_a_client_whose_start_failed_is_closed(make: Callable[..., Client]) -> None:
    async with FakeCluster() as cluster:
        cluster.fault = first_times(10_000, Silence(), ApiKey.METADATA)
        client: Any = make(cluster.bootstrap, bootstrap_timeout_ms=50)
        with pytest.raises(BootstrapError):
            await client.start()
        with pytest.raises(ClientClosed):
            await client.start()
        await client.close()
