"""Scenarios L: rolling restarts."""

import asyncio

from tests.simulation.stage import Stage, StageProducer, staged


class Traffic:
    """Numbered records sent one after the other, and how long each waited for its answer."""

    def __init__(self, stage: Stage, producer: StageProducer) -> None:
        self.stage = stage
        self.producer = producer
        self.acknowledged: list[bytes] = []
        self.waited: list[float] = []
        self.stopping = False
        self._task = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        number = 0
        while not self.stopping:
            value = b"%d" % number
            began = self.stage.now
            await self.producer.send("t", value)
            self.waited.append(self.stage.now - began)
            self.acknowledged.append(value)
            number += 1
            await self.stage.sleep(0.02)

    async def stop(self) -> None:
        self.stopping = True
        await self._task


@staged(brokers=3, controllers=3)
async def test_l_01_a_rolling_restart_loses_and_repeats_nothing(stage: Stage) -> None:
    """Given a producer that never pauses; when every controller and then every broker is stopped
    cleanly and started again, one after the other; then no write fails, none is lost or there
    twice, and none waits longer than a hand-over takes.
    """
    await stage.create_topic("t", [[1, 2, 3]], configs={"min.insync.replicas": "2"})
    traffic = Traffic(stage, await stage.producer())
    for name in stage.cluster.daemons:
        await stage.stop(name)
        stage.start(name)
        await stage.until(lambda: stage.active_name() is not None, "a controller is active")
        await stage.ready(name)
        await stage.until(lambda: len(stage.state("t").isr) == 3, "full ISR")
    await traffic.stop()
    assert await stage.read("t") == traffic.acknowledged
    assert len(traffic.acknowledged) > 20
    assert max(traffic.waited) < 1.0
