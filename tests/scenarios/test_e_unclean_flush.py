"""E-13 under traffic: the power of all machines fails at once, with and without group flush.

The random scenario of the simulator does the same under every other fault; here the moment of the
failure is drawn, and what it costs is counted.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ..simulation.stage import Stage

CONFIGS = {"min.insync.replicas": "2", "segment.bytes": "4000"}
RECORDS = 300
EVERYBODY = (1, 2, 3, "controller-1")


async def lose_everything_under_traffic(stage: Stage, policy: str) -> Mapping[str, int]:
    """Acknowledged and lost, by acks, after all power failed in the middle of the traffic."""
    rng = stage.world.rng("power")
    await stage.create_topic("t", [[1, 2, 3]], configs={**CONFIGS, "flush.policy": policy})
    producers = {acks: await stage.producer(f"acks-{acks}", acks=acks) for acks in ("all", "1")}
    sent: list[tuple[str, bytes, Any]] = []

    async def produce(acks: str) -> None:
        for number in range(RECORDS):
            value = b"%s-%d" % (acks.encode(), number)
            sent.append((acks, value, producers[acks].send("t", value)))
            await asyncio.sleep(0.004 * rng.random())

    traffic = [asyncio.ensure_future(produce(acks)) for acks in producers]
    await stage.sleep(0.05 + 0.4 * rng.random())
    stage.power_off(*EVERYBODY)
    acknowledged = [(acks, value) for acks, value, ack in sent if ack.done() and not ack.error()]
    for task in traffic:
        task.cancel()
    for producer in producers.values():
        stage.world.kill(producer.client.process)
    await stage.sleep(3)
    stage.power_on("controller-1", 1, 2, 3)
    await stage.begin()
    await stage.until(lambda: len(stage.state("t").isr) == 3, "everybody is in sync", 30)
    there = set(await stage.read("t"))
    return {
        "acknowledged": len(acknowledged),
        "all": sum(acks == "all" and value not in there for acks, value in acknowledged),
        "1": sum(acks == "1" and value not in there for acks, value in acknowledged),
    }


def play(policy: str, seed: int) -> Mapping[str, int]:
    stage = Stage(seed=seed)
    if policy == "none":
        # Nothing is promised then: what was committed may be gone.
        stage.mute(1, 2, 5, 6, 8)
    return stage.play(lambda stage: lose_everything_under_traffic(stage, policy))


@pytest.mark.parametrize("seed", range(4))
def test_e_13_with_group_flush_what_all_acknowledged_survives_the_loss_of_all_power(
    seed: int,
) -> None:
    """Given flush.policy=group and producers with acks=all; when every machine, the controller
    too, loses power at once; then nothing acknowledged is lost."""
    found = play("group", seed)
    assert found["acknowledged"] > 20
    assert found["all"] == 0


def test_e_13_without_it_the_same_loses_what_was_acknowledged() -> None:
    """Given flush.policy=none; when the same happens some times; then acknowledged records are
    lost: without flushes nothing is promised against the loss of all power."""
    found = [play("none", seed) for seed in range(5, 8)]
    assert sum(each["acknowledged"] for each in found) > 60
    assert sum(each["all"] for each in found) > 0
