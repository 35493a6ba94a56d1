"""Scenarios S: strangers at the controllers' ports, and the key that keeps them out."""

import asyncio
from collections.abc import Iterable
from typing import Any

from ..simulation.attacker import Stranger
from ..simulation.cluster import FIRST_KEY, KEY_FILE, SEALED, key_text
from ..simulation.ear import Ear
from ..simulation.stage import Stage, StageProducer, staged


class Writing:
    """A producer that writes all the time, and what became of each record."""

    def __init__(self, stage: Stage, producer: StageProducer) -> None:
        self.stage = stage
        self.producer = producer
        self.sent: list[Any] = []
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            self.sent.append(self.producer.send("t", b"%d" % len(self.sent)))
            await self.stage.sleep(0.05)

    async def end(self) -> None:
        """Stop, and see that no write has failed and that each is there once."""
        self.task.cancel()
        for each in self.sent:
            await each
        assert await self.stage.read("t") == [b"%d" % n for n in range(len(self.sent))]


async def writing(stage: Stage) -> Writing:
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    return Writing(stage, await stage.producer())


async def restart(stage: Stage, names: Iterable[str]) -> None:
    """Stop and start daemons one after the other; the next one when the last is ready."""
    for name in names:
        await stage.stop(name)
        stage.start(name)
        await stage.ready(name)


def sealed_count(stage: Stage) -> int:
    """Return how many connections to controllers are sealed."""
    found = 0
    for daemon in stage.cluster.controllers.values():
        assert daemon.service is not None
        found += sum(each.stream.seal is not None for each in daemon.service.sessions.all)
    return found


@staged(brokers=3, controllers=3, broker=SEALED, controller=SEALED, started=False)
async def test_s_51_whatever_a_stranger_sends_changes_nothing(stage: Stage) -> None:
    """Given a sealed cluster that rests, and a stranger that hears all; when it forges, repeats
    and says whatever it likes; then nobody is fenced, and nothing is added to the metadata."""
    stage.world.network.ear = stage.invariants.seals.ear = Ear()
    await stage.begin()
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.sleep(3)
    before = stage.image().offset
    stranger = Stranger(stage.world, stage.cluster, stage.invariants)
    process = stranger.start(rounds=400)
    assert process is not None
    await stage.until(lambda: not process.alive, "the stranger is done", 250)
    assert stranger.datagram_count > 5000
    assert stage.image().offset == before
    assert not any(stage.is_fenced(broker) for broker in (1, 2, 3))


@staged(brokers=3, controllers=3, broker=SEALED, controller=SEALED)
async def test_s_53_keys_change_under_load(stage: Stage) -> None:
    """Given a sealed cluster and a client that writes; when each machine gets the new key beside
    the old one and then in its place, and all are restarted; then no write fails."""
    load = await writing(stage)
    for numbers in ((FIRST_KEY, 2), (2,)):
        for host in stage.cluster.key_hosts:
            host.disk.put(KEY_FILE, key_text(*numbers))
            await stage.sleep(0.2)
        await restart(stage, stage.cluster.daemons)
    await load.end()


@staged(brokers=3, controllers=3)
async def test_s_58_a_running_cluster_gets_its_key_and_loses_it_again(stage: Stage) -> None:
    """Given a cluster without a key, and a client that writes; when every daemon is restarted
    with the key, then with the key required, and the same back; then no write fails."""
    load = await writing(stage)
    stage.cluster.give_key(FIRST_KEY)
    steps = (
        {"control.security": "none", "control.psk.file": KEY_FILE},
        {"control.security": "psk", "control.psk.file": KEY_FILE},
        {"control.security": "none", "control.psk.file": KEY_FILE},
        {"control.security": "none", "control.psk.file": ""},
    )
    counts = []
    for step in steps:
        for name, daemon in stage.cluster.daemons.items():
            daemon.properties |= step
            await restart(stage, [name])
        counts.append((sealed_count(stage) > 0, sealed_count(stage) == session_count(stage)))
    assert counts == [(True, True), (True, True), (True, True), (False, False)]
    await load.end()


def session_count(stage: Stage) -> int:
    services = [each.service for each in stage.cluster.controllers.values()]
    return sum(len(each.sessions) for each in services if each is not None)
