"""Flows on workers: each connector is configured, and old ones go."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from minikafka.connect.herding import Conflict, NotFound, NotLeader
from minikafka.connect.mirror.flows import Mirroring
from minikafka.connect.mirror.mm2_config import CHECKPOINT, HEARTBEAT, SOURCE, Mm2Config

TEXTS = {
    "clusters": "A,B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
}


class FakeHerder:
    def __init__(self, *known: str, refusals: list[Exception] | None = None) -> None:
        self.known: dict[str, Mapping[str, str]] = {key: {} for key in known}
        self.refusals = refusals or []
        self.failed: list[str] = []

    async def connectors(self) -> list[str]:
        return sorted(self.known)

    async def status(self, name: str) -> dict[str, Any]:
        if name not in self.known:
            raise NotFound(name)
        return {"connector": {"state": "FAILED" if name in self.failed else "RUNNING"}}

    async def restart_connector(self, name: str) -> None:
        self.failed.remove(name)

    async def delete(self, name: str) -> None:
        del self.known[name]

    async def put_config(self, name: str, config: Mapping[str, str]) -> None:
        if self.refusals:
            raise self.refusals.pop()
        self.known[name] = config


class FakeWorker:
    def __init__(self, props: dict[str, str], herder: Any, told: list[str]) -> None:
        self.herder = herder
        self._name = props["client.id"]
        self._told = told
        told.append(f"{self._name} at {props['bootstrap.servers']}")

    def ready(self) -> Mapping[str, object]:
        return {"worker_id": self._name}

    async def stop(self) -> None:
        self._told.append(f"{self._name} ends")


async def run(herders: dict[str, FakeHerder]) -> list[str]:
    told: list[str] = []

    async def start(props: dict[str, str]) -> FakeWorker:
        return FakeWorker(props, herders[props["client.id"]], told)

    config = Mm2Config(TEXTS)
    mirroring = Mirroring(config, config.flows(), start)
    await mirroring.start()
    told.append(str(mirroring.ready()))
    await mirroring.stop()
    return told


async def test_each_flow_has_a_worker_in_its_target_and_only_its_connectors() -> None:
    herders = {"A->B": FakeHerder(), "B->A": FakeHerder(SOURCE, HEARTBEAT)}
    assert await run(herders) == [
        "A->B at b:1",
        "B->A at a:1",
        "{'flows': {'A->B': {'worker_id': 'A->B'}, 'B->A': {'worker_id': 'B->A'}}}",
        "A->B ends",
        "B->A ends",
    ]
    assert sorted(herders["A->B"].known) == sorted([SOURCE, CHECKPOINT, HEARTBEAT])
    assert sorted(herders["B->A"].known) == [HEARTBEAT]
    assert herders["A->B"].known[SOURCE]["source.cluster.bootstrap.servers"] == "a:1"


async def test_a_worker_that_does_not_lead_leaves_the_configuration_to_the_leader() -> None:
    herders = {"A->B": FakeHerder(refusals=[NotLeader(None)]), "B->A": FakeHerder()}
    await run(herders)
    assert herders["A->B"].known == {}


async def test_a_group_that_settles_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_rest(_: float) -> None:
        return None

    monkeypatch.setattr(asyncio, "sleep", no_rest)
    herders = {"A->B": FakeHerder(refusals=[Conflict("rebalance")] * 2), "B->A": FakeHerder()}
    await run(herders)
    assert sorted(herders["A->B"].known) == sorted([SOURCE, CHECKPOINT, HEARTBEAT])


async def test_a_connector_that_failed_is_started_again() -> None:
    herders = {"A->B": FakeHerder(), "B->A": FakeHerder()}
    config = Mm2Config(TEXTS)

    async def start(props: dict[str, str]) -> FakeWorker:
        return FakeWorker(props, herders[props["client.id"]], [])

    mirroring = Mirroring(config, config.flows(), start)
    await mirroring.start()
    herders["A->B"].failed = [SOURCE]
    del herders["B->A"].known[HEARTBEAT]
    await mirroring.restart_failed()
    assert herders["A->B"].failed == []
    await mirroring.stop()
