"""Decides when faults of the shape happen, one after the other or several at once."""

import asyncio

from .attacker import Attacker
from .cluster import Cluster
from .coverage import Coverage
from .faults import Fault, ProcessFaults
from .plots import Plots
from .promises import Promises
from .rot import BitRot
from .shape import Shape
from .wire_faults import MachineFaults, WireFaults
from .world import World


class Nemesis:
    """Injects faults for some time, then undoes what is left of them."""

    def __init__(
        self, world: World, cluster: Cluster, shape: Shape, promises: Promises, coverage: Coverage
    ) -> None:
        self.world = world
        self.cluster = cluster
        self.shape = shape
        self.coverage = coverage
        self.rng = world.rng("nemesis/order")
        self._wires = WireFaults(world, cluster, shape, promises)
        self._faults: dict[str, Fault] = {
            **ProcessFaults(world, cluster, shape, promises).table(),
            **self._wires.table(),
            **MachineFaults(world, cluster, shape, promises).table(),
            **Plots(world, cluster, shape, promises).table(),
            **BitRot(world, cluster, shape, promises).table(),
            **Attacker(world, cluster, shape, promises).table(),
        }
        world.trace.emit("nemesis", "faults", *shape.faults)

    async def run(self, seconds: float) -> None:
        """Inject faults for `seconds`; afterwards everything works again."""
        end = self.world.now() + seconds
        # Each kind that was drawn comes at least once, if there is time.
        first = self.rng.sample(self.shape.faults, len(self.shape.faults))
        workers = [self._work(end, first) for _ in range(self.shape.overlap)]
        await asyncio.gather(*workers)
        self.restore()

    async def _work(self, end: float, first: list[str]) -> None:
        while self.world.now() < end:
            name = first.pop() if first else self.rng.choice(self.shape.faults)
            self.world.trace.emit("nemesis", name)
            if await self._faults[name]():
                self.coverage.note("fault", name)
                self.world.trace.emit("nemesis", "over", name)
            await asyncio.sleep(2 * self.shape.gap * self.rng.random())

    def restore(self) -> None:
        self.world.trace.emit("nemesis", "restore")
        self._wires.calm()
        self.world.network.heal()
        self.world.network.delays.clear()
        self.cluster.is_kept_running = True
        for daemon in self.cluster.daemons.values():
            daemon.host.disk.mend()
            if daemon.process is not None:
                self.world.resume(daemon.process)
                daemon.process.die_at_disk_operation = None
            daemon.power_on()
            daemon.start()
