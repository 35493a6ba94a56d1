"""Flows on workers: each connector is configured, and old ones go."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from minikafka.connect.herding import NotLeader
from minikafka.connect.mirror.flows import running_flows
from minikafka.connect.mirror.mm2_config import CHECKPOINT, HEARTBEAT, SOURCE, Flow, Mm2Config

TEXTS = {
    "clusters": "A,B",
    "A.bootstrap.servers": "a:1",
    "B.bootstrap.servers": "b:1",
    "A->B.enabled": "true",
}
TO_B, TO_A = Flow("A", "B"), Flow("B", "A")


class FakeHerder:
    def __init__(self, known: dict[str, Mapping[str, str]], leads: bool = True) -> None:
        self.known = known
        self.leads = leads

    async def connectors(self) -> list[str]:
        return sorted(self.known)

    async def delete(self, name: str) -> None:
        del self.known[name]

    async def put_config(self, name: str, config: Mapping[str, str]) -> None:
        if not self.leads:
            raise NotLeader(None)
        self.known[name] = config


async def run(herders: dict[Flow, FakeHerder]) -> list[str]:
    told: list[str] = []

    @asynccontextmanager
    async def open_herder(flow: Flow, props: Mapping[str, str]) -> AsyncIterator[Any]:
        told.append(f"{flow} in {props['bootstrap.servers']}")
        yield herders[flow]
        told.append(f"{flow} ends")

    config = Mm2Config(TEXTS)
    async with running_flows(config, config.flows(), open_herder):
        told.append("they run")
    return told


async def test_each_flow_has_a_worker_in_its_target_and_only_its_connectors() -> None:
    herders = {TO_B: FakeHerder({}), TO_A: FakeHerder({SOURCE: {}, HEARTBEAT: {}})}
    assert await run(herders) == [
        "A->B in b:1",
        "B->A in a:1",
        "they run",
        "B->A ends",
        "A->B ends",
    ]
    assert sorted(herders[TO_B].known) == sorted([SOURCE, CHECKPOINT, HEARTBEAT])
    assert sorted(herders[TO_A].known) == [HEARTBEAT]
    assert herders[TO_B].known[SOURCE]["source.cluster.bootstrap.servers"] == "a:1"


async def test_a_worker_that_does_not_lead_leaves_the_configuration_to_the_leader() -> None:
    herders = {TO_B: FakeHerder({}, leads=False), TO_A: FakeHerder({})}
    assert "they run" in await run(herders)
    assert herders[TO_B].known == {}
