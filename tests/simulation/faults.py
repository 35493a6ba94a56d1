"""The base of all faults, and the faults of processes: kill, pause, stop, restart, power loss.

A fault is a coroutine that happens, lasts, and is undone before it returns. Its result says whether
anything happened.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .cluster import Cluster, Daemon
from .inside import active
from .promises import Promises
from .shape import Shape
from .world import World

if TYPE_CHECKING:
    import random

Fault = Callable[[], Awaitable[bool]]
STOP_SECONDS = 10.0
READY_SECONDS = 15.0


class Faults:
    """The base class of faults: the daemons that can be hit, and for how long."""

    def __init__(self, world: World, cluster: Cluster, shape: Shape, promises: Promises) -> None:
        self.world = world
        self.cluster = cluster
        self.shape = shape
        self.promises = promises
        self.rng: random.Random = world.rng("nemesis")

    @property
    def brokers(self) -> list[Daemon]:
        return list(self.cluster.brokers.values())

    @property
    def controllers(self) -> list[Daemon]:
        return list(self.cluster.controllers.values())

    @property
    def daemons(self) -> list[Daemon]:
        return list(self.cluster.daemons.values())

    def active_controller(self) -> Daemon:
        """Return the active controller, or any if there is none."""
        controller = active(self.cluster)
        for daemon in self.controllers:
            if daemon.process is not None and daemon.process.controller is controller:
                return daemon
        return self.rng.choice(self.controllers)

    def some_leader(self) -> Daemon:
        """Return the leader of some partition, or any broker if there is none."""
        leaders = self.promises.leaders()
        if not leaders:
            return self.rng.choice(self.brokers)
        return self.cluster.brokers[self.rng.choice(leaders)]

    async def down_time(self) -> None:
        """Wait for a time that is shorter than any session, or longer."""
        await asyncio.sleep(self.rng.choice((0, 0.05, 0.5, 3)) * self.rng.random())

    async def _within(self, seconds: float, condition: Callable[[], bool]) -> None:
        for _ in range(int(seconds / 0.05)):
            if condition():
                return
            await asyncio.sleep(0.05)

    def _delay(self, source: Daemon, target: Daemon, seconds: float) -> None:
        """Delay everything from source to target by so many seconds; 0 ends the delay."""
        self.world.network.delay(source.host, target.host, seconds)

    async def _bounce(self, victims: Sequence[Daemon]) -> bool:
        for victim in victims:
            victim.kill()
        await self.down_time()
        for victim in victims:
            victim.start()
        return True


def _has_ended(daemon: Daemon) -> bool:
    return not daemon.alive


def _is_ready(daemon: Daemon) -> bool:
    return daemon.service is not None


class ProcessFaults(Faults):
    """The faults of whole processes."""

    def table(self) -> dict[str, Fault]:
        return {
            "kill-broker": self.kill_broker,
            "kill-leader": self.kill_leader,
            "kill-controller": self.kill_controller,
            "kill-active-controller": self.kill_active_controller,
            "kill-all": self.kill_all,
            "die-writing": self.die_writing,
            "terminate": self.terminate,
            "rolling-restart": self.rolling_restart,
            "pause": self.pause,
            "power-broker": self.power_broker,
            "power-controller": self.power_controller,
            "power-all": self.power_all,
        }

    async def kill_broker(self) -> bool:
        return await self._bounce(self.rng.sample(self.brokers, self.rng.choice((1, 1, 1, 2, 3))))

    async def kill_leader(self) -> bool:
        return await self._bounce([self.some_leader()])

    async def kill_controller(self) -> bool:
        count = min(self.rng.choice((1, 1, 2, 3)), len(self.controllers))
        return await self._bounce(self.rng.sample(self.controllers, count))

    async def kill_active_controller(self) -> bool:
        return await self._bounce([self.active_controller()])

    async def kill_all(self) -> bool:
        """Kill every daemon; a majority of each role returns first, then the others."""
        for daemon in self.daemons:
            daemon.kill()
        await self.down_time()
        late: list[Daemon] = []
        for group in (self.controllers, self.brokers):
            order = self.rng.sample(group, len(group))
            majority = len(order) // 2 + 1
            for daemon in order[:majority]:
                daemon.start()
            late += order[majority:]
        await self.down_time()
        for daemon in late:
            daemon.start()
        return True

    async def die_writing(self) -> bool:
        """Kill a daemon inside of a disk operation, of which any part was done."""
        victim = self.rng.choice(self.daemons)
        process = victim.process
        if process is None or not process.alive:
            return False
        process.die_at_disk_operation = self.rng.randint(1, 40)
        await asyncio.sleep(self.rng.random() * 2)
        process.die_at_disk_operation = None
        if victim.alive:
            return False
        victim.service = None
        await self.down_time()
        victim.start()
        return True

    async def terminate(self) -> bool:
        victim = self.rng.choice(self.daemons)
        victim.terminate()
        await asyncio.sleep(3 * self.rng.random())
        if self.rng.random() < 0.5:
            victim.kill()
        victim.start()
        return True

    async def rolling_restart(self) -> bool:
        """Stop and start the daemons one after the other; the next one when the last is ready."""
        for daemon in self.rng.choice((self.brokers, self.controllers, self.daemons)):
            daemon.terminate()
            await self._within(STOP_SECONDS, partial(_has_ended, daemon))
            daemon.kill()
            daemon.start()
            await self._within(READY_SECONDS, partial(_is_ready, daemon))
        return True

    async def pause(self) -> bool:
        victim = self.rng.choice(self.daemons)
        process = victim.process
        if process is None or not process.alive:
            return False
        self.world.pause(process)
        await asyncio.sleep(self.rng.choice((0.5, 4)) * self.rng.random())
        self.world.resume(process)
        return True

    # -- power ------------------------------------------------------------------------------

    async def _worst_moment(self) -> None:
        """Often wait for a new acknowledgement, whose data may not be on the disks yet."""
        if self.rng.random() < 0.5:
            await self.promises.until_something_is_promised(2)

    async def _lose_power(self, victims: Sequence[Daemon]) -> bool:
        for victim in victims:
            victim.power_off()
        await self.down_time()
        for victim in victims:
            victim.power_on()
            victim.start()
        return True

    async def power_broker(self) -> bool:
        """Power off as many brokers at once as the product's guarantees allow, but at least one."""
        await self._worst_moment()
        order = self.rng.sample(self.brokers, len(self.brokers))
        wanted = self.rng.choice((1, 1, 2))
        victims: list[Daemon] = []
        end = self.world.now() + 5
        while not victims and self.world.now() < end:
            for broker in order:
                if len(victims) < wanted and self.promises.survive_without([*victims, broker]):
                    victims.append(broker)
            if not victims:
                await asyncio.sleep(0.05)
        if not victims:
            return False
        await self._lose_power(victims)
        # Nobody else may die until the cluster has coped with this.
        await self._within(20, lambda: self.promises.are_recovered(victims))
        return True

    async def power_controller(self) -> bool:
        """Power off any number of controllers: answered requests are stable on a majority."""
        await self._worst_moment()
        count = min(self.rng.choice((1, 2, 3)), len(self.controllers))
        victims = self.rng.sample(self.controllers, count)
        if any(victim.host.disk.has_lied for victim in victims):
            return False
        return await self._lose_power(victims)

    async def power_all(self) -> bool:
        """Power off all machines, if every topic has flush.policy=group."""
        await self._worst_moment()
        if not self.promises.survive_without(self.brokers):
            return False
        if any(victim.host.disk.has_lied for victim in self.daemons):
            return False
        return await self._lose_power(self.daemons)
