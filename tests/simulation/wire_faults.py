"""Faults of networks, disks and clocks. As in faults.py, each is undone before it returns."""

import asyncio
import errno
from collections.abc import Sequence

from minikafka.controller.quorum.log_facts import LogEnd
from minikafka.controller.quorum.stable_end import FILE_NAME, newest_note
from minikafka.protocol.records.record_batch import headers

from .cluster import Daemon
from .disk import names_in, read_all
from .faults import Fault, Faults
from .network import Host
from .quorum_checks import METADATA_DIRECTORY

CHECKED_FROM = 17
"""The position in a batch from which the checksum covers every bit."""


class WireFaults(Faults):
    """The faults of the network."""

    def table(self) -> dict[str, Fault]:
        return {
            "isolate": self.isolate,
            "isolate-leader": self.isolate_leader,
            "isolate-active-controller": self.isolate_active_controller,
            "cut-one-way": self.cut_one_way,
            "swizzle-clog": self.swizzle_clog,
            "half-open": self.half_open,
            "slow-network": self.slow_network,
            "lossy-datagrams": self.lossy_datagrams,
            "gray-node": self.gray_node,
            "late-words": self.late_words,
            "slow-follower": self.slow_follower,
        }

    @property
    def _hosts(self) -> list[Host]:
        return list(self.world.network.hosts.values())

    async def _isolate(self, victim: Daemon, chance: float) -> bool:
        network = self.world.network
        host = victim.host
        pairs = []
        for other in self._hosts:
            if other is not host and self.rng.random() < chance:
                pairs += [(host, other), (other, host)]
        for source, target in pairs:
            network.block(source, target)
        await asyncio.sleep(self.rng.choice((1, 4, 8)) * self.rng.random())
        for source, target in pairs:
            network.unblock(source, target)
        return bool(pairs)

    async def isolate(self) -> bool:
        """Block both directions between one machine and some others."""
        return await self._isolate(self.rng.choice(self.daemons), 0.7)

    async def isolate_leader(self) -> bool:
        """Isolate a leader from all other machines, or from all but the clients."""
        return await self._isolate(self.some_leader(), self.rng.choice((0.5, 1.0)))

    async def isolate_active_controller(self) -> bool:
        return await self._isolate(self.active_controller(), self.rng.choice((0.6, 1.0)))

    async def cut_one_way(self) -> bool:
        network = self.world.network
        pairs = [tuple(self.rng.sample(self._hosts, 2)) for _ in range(self.rng.randint(1, 4))]
        for source, target in pairs:
            network.block(source, target)
        await asyncio.sleep(4 * self.rng.random())
        for source, target in pairs:
            network.unblock(source, target)
        return True

    async def swizzle_clog(self) -> bool:
        """Isolate machines one by one, and reconnect them one by one in another order."""
        network = self.world.network
        nodes = self.rng.sample(self.daemons, self.rng.randint(2, len(self.daemons) - 1))
        clogged: dict[str, list[tuple[Host, Host]]] = {}
        for node in nodes:
            pairs = [(node.host, other) for other in self._hosts if other is not node.host] + [
                (other, node.host) for other in self._hosts if other is not node.host
            ]
            for source, target in pairs:
                network.block(source, target)
            clogged[node.name] = pairs
            await asyncio.sleep(self.rng.random())
        for name in self.rng.sample(list(clogged), len(clogged)):
            for source, target in clogged.pop(name):
                if not any((source, target) in pairs for pairs in clogged.values()):
                    network.unblock(source, target)
            await asyncio.sleep(self.rng.random())
        return True

    async def half_open(self) -> bool:
        """Break the connections between two machines without notice to either end."""
        nodes = [daemon.host for daemon in self.daemons]
        broken = 0
        for _ in range(self.rng.randint(1, 3)):
            one = self.rng.choice(nodes)
            other = self.rng.choice([host for host in self._hosts if host is not one])
            broken += self.world.network.break_connections(one, other)
        await asyncio.sleep(self.rng.random())
        return broken > 0

    async def slow_network(self) -> bool:
        """Delay segments, and lose some, which arrive by retransmission."""
        network = self.world.network
        network.latency_spread = 0.1 * self.rng.random()
        network.stall_chance = self.rng.choice((0.02, 0.2))
        await asyncio.sleep(3 * self.rng.random())
        self.calm()
        return True

    async def lossy_datagrams(self) -> bool:
        """Lose, duplicate and reorder datagrams."""
        network = self.world.network
        network.datagram_loss = self.rng.choice((0.01, 0.3, 1.0))
        network.datagram_duplication = self.rng.choice((0.01, 0.5))
        network.datagram_spread = self.rng.choice((0.0, 1.0))
        await asyncio.sleep(4 * self.rng.random())
        self.calm()
        return True

    def calm(self) -> None:
        """Set the network back to short delays and rare losses."""
        network = self.world.network
        network.latency_spread = 0.0008
        network.stall_chance = 0.002
        network.datagram_loss = network.datagram_duplication = 0.01
        network.datagram_spread = 0.0

    async def gray_node(self) -> bool:
        """Make one machine's disk and network a hundred times slower than the others'."""
        network = self.world.network
        victim = self.rng.choice(self.daemons).host
        slow = self.rng.choice((0.01, 0.05, 0.2))
        for other in self._hosts:
            if other is not victim:
                network.delay(victim, other, slow)
                network.delay(other, victim, slow)
        disk = victim.disk
        disk.slow_sync_chance, disk.slow_sync_seconds = 1.0, 10 * slow
        await asyncio.sleep(8 * self.rng.random())
        disk.slow_sync_chance, disk.slow_sync_seconds = 0.02, 0.1
        for other in self._hosts:
            if other is not victim:
                network.delay(victim, other, 0)
                network.delay(other, victim, 0)
        return True

    async def late_words(self) -> bool:
        """Delay a leader's messages to the active controller while other brokers fail."""
        leader = self.some_leader()
        controller = self.active_controller()
        self._delay(leader, controller, self.rng.choice((0.2, 0.5, 1.0, 1.5)))
        await self._trouble([each for each in self.brokers if each is not leader])
        self._delay(leader, controller, 0)
        return True

    async def slow_follower(self) -> bool:
        """Delay messages between leaders and one broker, which falls behind while others die."""
        slow = self.rng.choice(self.brokers)
        others = [each for each in self.brokers if each is not slow]
        seconds = self.rng.choice((0.02, 0.1, 0.4, 0.8))
        for other in others:
            self._delay(slow, other, seconds)
            self._delay(other, slow, seconds)
        await asyncio.sleep(3 * self.rng.random())
        if self.rng.random() < 0.5:
            await self._trouble(others)
        else:
            await self._return_with(slow, others)
        for other in others:
            self._delay(slow, other, 0)
            self._delay(other, slow, 0)
        return True

    async def _return_with(self, slow: Daemon, others: Sequence[Daemon]) -> None:
        """Kill all brokers, `slow` first, which misses the last writes; it returns early.

        The next leader then knows only an old high watermark, and few brokers that know a newer
        one.
        """
        slow.kill()
        await asyncio.sleep(self.rng.random())
        for other in others:
            other.kill()
        await self.down_time()
        order = [slow, *self.rng.sample(others, len(others))]
        early = self.rng.randint(2, len(order))
        for daemon in order[:early]:
            daemon.start()
        await asyncio.sleep(4 * self.rng.random())
        for daemon in order[early:]:
            daemon.start()
        await asyncio.sleep(self.rng.random())

    async def _trouble(self, among: Sequence[Daemon]) -> None:
        """Kill or pause some of these daemons, one after the other, for shorter or longer times."""
        for _ in range(self.rng.randint(1, 4)):
            victim = self.rng.choice(among)
            process = victim.process
            if self.rng.random() < 0.5 or process is None or not process.alive:
                await self._bounce([victim])
            else:
                self.world.pause(process)
                await asyncio.sleep(4 * self.rng.random())
                self.world.resume(process)
            await asyncio.sleep(2 * self.rng.random())


def _metadata(daemon: Daemon) -> str:
    return f"{daemon.properties['log.dirs']}/{METADATA_DIRECTORY}"


def _noted_end(daemon: Daemon) -> LogEnd:
    """Return the offset below which a controller's metadata log is known to have been stable."""
    disk, directory = daemon.host.disk, _metadata(daemon)
    is_there = FILE_NAME in names_in(disk, directory)
    found = newest_note(read_all(disk, f"{directory}/{FILE_NAME}")) if is_there else None
    return LogEnd(-1, 0) if found is None else found[1]


def _metadata_batches(daemon: Daemon, end: int) -> list[tuple[str, int, int]]:
    """Return the file, position and size of each batch below `end`."""
    directory = _metadata(daemon)
    return [
        (f"{directory}/{name}", position, header.size)
        for name in names_in(daemon.host.disk, directory)
        if name.endswith(".log")
        for position, header in headers(read_all(daemon.host.disk, f"{directory}/{name}"))
        if header.next_offset <= end
    ]


def _has_all(daemon: Daemon) -> bool:
    """Return whether a controller is up and has all again that was once stable there."""
    if daemon.service is None:
        return False
    return b"recoverTo" not in read_all(daemon.host.disk, f"{_metadata(daemon)}/quorum-state")


class MachineFaults(Faults):
    """The faults of disks and clocks."""

    _is_rotten = False
    """True while a controller lacks records that it had on stable storage."""

    def table(self) -> dict[str, Fault]:
        return {
            "disk-error": self.disk_error,
            "disk-full": self.disk_full,
            "slow-disk": self.slow_disk,
            "clock-jump": self.clock_jump,
            "lose-directory": self.lose_directory,
            "rot-metadata": self.rot_metadata,
        }

    async def disk_error(self) -> bool:
        """Let writes, reads or syncs fail for a while; a daemon that needs the disk ends."""
        victim = self.rng.choice(self.daemons)
        disk = victim.host.disk
        chance = self.rng.choice((0.05, 0.5, 1.0))

        def fail(path: str) -> int | None:
            return errno.EIO if self.rng.random() < chance else None

        victim.may_fail = True
        what = self.rng.choice(("fail_sync", "fail_write", "fail_write", "fail_read"))
        setattr(disk, what, fail)
        await asyncio.sleep(2 * self.rng.random())
        return await self._replace(victim)

    async def disk_full(self) -> bool:
        victim = self.rng.choice(self.daemons)
        victim.may_fail = True
        disk = victim.host.disk
        disk.capacity = disk.used() + self.rng.randint(0, 5000)
        await asyncio.sleep(2 * self.rng.random())
        return await self._replace(victim)

    async def _replace(self, victim: Daemon) -> bool:
        # It may go on with a directory offline, until an operator restarts it.
        victim.host.disk.mend()
        return await self._bounce([victim])

    async def slow_disk(self) -> bool:
        disk = self.rng.choice(self.daemons).host.disk
        disk.slow_sync_chance = self.rng.choice((0.3, 1.0))
        disk.slow_sync_seconds = self.rng.choice((0.3, 2.0))
        await asyncio.sleep(5 * self.rng.random())
        disk.slow_sync_chance, disk.slow_sync_seconds = 0.02, 0.1
        return True

    async def lose_directory(self) -> bool:
        """Let one of a broker's log directories fail for good.

        The broker continues with the others until an operator replaces the disk and restarts it.
        """
        victim = self.rng.choice(self.brokers)
        lost = self.rng.choice(victim.properties["log.dirs"].split(","))

        def fail(path: str) -> int | None:
            return errno.EIO if path.startswith(f"{lost}/") else None

        disk = victim.host.disk
        victim.may_fail = True
        disk.fail_sync = disk.fail_write = disk.fail_read = fail
        await asyncio.sleep(5 * self.rng.random())
        return await self._replace(victim)

    async def rot_metadata(self) -> bool:
        """Flip a bit on the stable storage of a controller that was killed.

        This happens to one controller at a time, and only if enough others hold the same records,
        because the product guarantees no more.
        """
        victim, *others = self.rng.sample(self.controllers, len(self.controllers))
        is_too_much = any(each.host.disk.has_lied or not each.host.up for each in self.controllers)
        if self._is_rotten or is_too_much:
            return False
        victim.kill()
        noted = _noted_end(victim)
        whole = [each for each in others if _noted_end(each) >= noted]
        batches = _metadata_batches(victim, noted.offset)
        if len(whole) > len(self.controllers) // 2 and batches:
            self._is_rotten = True
            path, position, size = self.rng.choice(batches)
            at = position + self.rng.randrange(CHECKED_FROM, size)
            victim.host.disk.rot(path, at, 1 << self.rng.randrange(8))
        await self.down_time()
        victim.start()
        if self._is_rotten:
            await self._within(20, lambda: _has_all(victim))
            self._is_rotten = not _has_all(victim)
            return True
        return False

    async def clock_jump(self) -> bool:
        victim = self.rng.choice(self.daemons).host
        victim.wall_skew_ms += self.rng.choice((-86_400_000, -5000, 5000, 86_400_000))
        return True
