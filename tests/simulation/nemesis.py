"""What goes wrong, when, and for how long: drawn per run, within what the product promises.

Each run draws its own subset of faults (swarm testing): a run without partitions reaches states
that partitions would have hidden.
"""

import asyncio
import errno
from collections.abc import Awaitable, Callable

from .cluster import Cluster, Daemon
from .world import World

Fault = Callable[[], Awaitable[None]]


class Nemesis:
    """Injects faults until told to stop, then makes the world whole again."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.world = world
        self.cluster = cluster
        self.rng = world.rng("nemesis")
        self.counts: dict[str, int] = {}
        self._active = 0
        """Faults going on at this moment."""
        self._calm_down = asyncio.Event()
        """Cleared while nothing else may go wrong."""
        self._calm_down.set()
        self.may_lose_power: Callable[[Daemon], bool] = lambda daemon: False
        """Would losing this broker's unsynced data break no promise?"""
        self.has_left_isr: Callable[[Daemon], bool] = lambda daemon: True
        self._faults: dict[str, Fault] = {
            "kill-broker": self.kill_broker,
            "die-writing": self.die_writing,
            "terminate": self.terminate,
            "kill-controller": self.kill_controller,
            "disk-error": self.disk_error,
            "disk-full": self.disk_full,
            "power-broker": self.power_broker,
            "power-controller": self.power_controller,
            "pause": self.pause,
            "isolate": self.isolate,
            "cut-one-way": self.cut_one_way,
            "slow-network": self.slow_network,
            "clock-jump": self.clock_jump,
        }
        names = list(self._faults)
        count = self.rng.randint(2, len(names))
        self.chosen = sorted(self.rng.sample(names, count))
        world.trace.emit("nemesis", "faults", *self.chosen)

    async def run(self, seconds: float) -> None:
        end = self.world.now() + seconds
        workers = [self._work(end) for _ in range(self.rng.choice((1, 1, 2, 3)))]
        await asyncio.gather(*workers)
        self.restore()

    async def _work(self, end: float) -> None:
        while self.world.now() < end:
            await self._calm_down.wait()
            name = self.rng.choice(self.chosen)
            self.counts[name] = self.counts.get(name, 0) + 1
            self.world.trace.emit("nemesis", name)
            self._active += 1
            await self._faults[name]()
            self._active -= 1
            await asyncio.sleep(self.rng.choice((0, 0.1, 0.5, 2)) * self.rng.random())

    def restore(self) -> None:
        self.world.trace.emit("nemesis", "restore")
        self._calm()
        self.world.network.heal()
        self.cluster.is_kept_running = True
        for daemon in self.cluster.daemons.values():
            daemon.host.disk.mend()
            if daemon.process is not None:
                self.world.resume(daemon.process)
                daemon.process.die_at_disk_operation = None
            daemon.power_on()
            daemon.start()

    # -- the faults -------------------------------------------------------------------------

    def _some_broker(self) -> Daemon:
        return self.rng.choice(list(self.cluster.brokers.values()))

    async def _down_time(self) -> None:
        """Sometimes shorter than any session, sometimes longer."""
        await asyncio.sleep(self.rng.choice((0, 0.05, 0.5, 3)) * self.rng.random())

    async def kill_broker(self) -> None:
        victims = self.rng.sample(
            list(self.cluster.brokers.values()), self.rng.choice((1, 1, 1, 2, 3))
        )
        for victim in victims:
            victim.kill()
        await self._down_time()
        for victim in victims:
            victim.start()

    async def die_writing(self) -> None:
        victim = self.rng.choice(list(self.cluster.daemons.values()))
        process = victim.process
        if process is None or not process.alive:
            return
        process.die_at_disk_operation = self.rng.randint(1, 40)
        await asyncio.sleep(self.rng.random() * 2)
        process.die_at_disk_operation = None
        if victim.alive:
            return
        victim.service = None
        await self._down_time()
        victim.start()

    async def terminate(self) -> None:
        victim = self._some_broker()
        victim.terminate()
        await asyncio.sleep(3 * self.rng.random())
        if self.rng.random() < 0.5:
            victim.kill()
        victim.start()

    async def kill_controller(self) -> None:
        self.cluster.controller.kill()
        await self._down_time()
        self.cluster.controller.start()

    async def power_broker(self) -> None:
        victim = self._some_broker()
        if victim.host.disk.has_lied or not self._calm_down.is_set():
            return
        self._calm_down.clear()
        end = self.world.now() + 5
        while self._active > 1 or not self.may_lose_power(victim):
            if self.world.now() > end:
                break
            await asyncio.sleep(0.02)
        else:
            await self._lose_power(victim)
        self._calm_down.set()

    async def _lose_power(self, victim: Daemon) -> None:
        victim.power_off()
        await self._down_time()
        victim.power_on()
        victim.start()
        # Until the controller knows that this one has lost its memory, nobody else may die:
        # the last member of an ISR is trusted to hold what it held.
        await self.cluster.wait_until(
            lambda: self.has_left_isr(victim), f"{victim.name} is out of every ISR", 20
        )

    async def power_controller(self) -> None:
        if self.cluster.controller.host.disk.has_lied:
            return
        self.cluster.controller.power_off()
        await self._down_time()
        self.cluster.controller.power_on()
        self.cluster.controller.start()

    async def disk_error(self) -> None:
        """Writes or syncs fail for a while; whoever cannot go on without its disk ends."""
        victim = self.rng.choice(list(self.cluster.daemons.values()))
        disk = victim.host.disk
        chance = self.rng.choice((0.05, 1.0))

        def fail(path: str) -> int | None:
            return errno.EIO if self.rng.random() < chance else None

        victim.may_fail = True
        if self.rng.random() < 0.5:
            disk.fail_sync = fail
        else:
            disk.fail_write = fail
        await asyncio.sleep(2 * self.rng.random())
        victim.host.disk.mend()
        await self._replace_process(victim)

    async def disk_full(self) -> None:
        victim = self.rng.choice(list(self.cluster.daemons.values()))
        victim.may_fail = True
        victim.host.disk.capacity = victim.host.disk.used() + self.rng.randint(0, 5000)
        await asyncio.sleep(2 * self.rng.random())
        victim.host.disk.mend()
        await self._replace_process(victim)

    async def _replace_process(self, victim: Daemon) -> None:
        # It may go on with a directory offline, until an operator restarts it.
        victim.kill()
        await self._down_time()
        victim.start()

    async def pause(self) -> None:
        victim = self.rng.choice(list(self.cluster.daemons.values()))
        process = victim.process
        if process is not None:
            self.world.pause(process)
            await asyncio.sleep(4 * self.rng.random())
            self.world.resume(process)

    async def isolate(self) -> None:
        """One machine against some others, both ways."""
        network = self.world.network
        victim = self.rng.choice(list(self.cluster.daemons.values())).host
        for other in network.hosts.values():
            if other is not victim and self.rng.random() < 0.7:
                network.block(victim, other)
                network.block(other, victim)
        await asyncio.sleep(4 * self.rng.random())
        network.heal()

    async def cut_one_way(self) -> None:
        network = self.world.network
        hosts = list(network.hosts.values())
        for _ in range(self.rng.randint(1, 4)):
            source, target = self.rng.sample(hosts, 2)
            network.block(source, target)
        await asyncio.sleep(4 * self.rng.random())
        network.heal()

    async def slow_network(self) -> None:
        network = self.world.network
        network.latency_spread = 0.1 * self.rng.random()
        network.datagram_loss = self.rng.choice((0.01, 0.3, 1.0))
        network.stall_chance = 0.02
        await asyncio.sleep(3 * self.rng.random())
        self._calm()

    def _calm(self) -> None:
        network = self.world.network
        network.latency_spread = 0.0008
        network.datagram_loss = 0.01
        network.stall_chance = 0.002

    async def clock_jump(self) -> None:
        victim = self.rng.choice(list(self.cluster.daemons.values())).host
        victim.wall_skew_ms += self.rng.choice((-86_400_000, -5000, 5000, 86_400_000))
