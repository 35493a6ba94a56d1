"""Faults with a plot: several steps against one partition, each at the moment that hurts.

What they lead to would take other faults thousands of runs. Each is undone before it returns.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from minikafka.aio import Admin, TopicPartition
from minikafka.client.replication_types import ElectionType
from minikafka.protocol.control.image import PartitionState
from minikafka.runtime.errors import MinikafkaError

from .cluster import Daemon
from .faults import Fault, Faults
from .world import SimRuntime

SESSION_SECONDS = 2.0
"""Of a broker, at the simulated controllers."""


@dataclass(frozen=True, slots=True)
class Cast:
    """One partition and who plays which part."""

    partition: TopicPartition
    state: PartitionState
    leader: Daemon
    others: list[Daemon]
    """Its other members of the ISR, in the order of the replicas: the preferred one first."""


class Plots(Faults):
    """Against one partition at a time."""

    _movers = 0

    def table(self) -> dict[str, Fault]:
        return {"stale-proposal": self.stale_proposal, "lead-moved-and-back": self.moved_and_back}

    async def stale_proposal(self) -> bool:
        """A leader's proposal is late; meanwhile a follower in it was out of the ISR, and is not
        heard of by the leader when it is taken back for well."""
        cast = self._cast(lambda state: len(state.isr) > 2)
        if cast is None:
            return False
        leader, (out, back, *_) = cast.leader, self.rng.sample(cast.others, len(cast.others))
        controller = self.active_controller()
        self._delay(leader, controller, 1.5)
        cut = [(out, other) for other in self.daemons if other is not out]
        self._cut(cut)
        back.kill()
        back.start()
        await asyncio.sleep(SESSION_SECONDS + self.rng.random())
        deaf = [(out, leader)]
        self._heal([pair for pair in cut if pair not in deaf])
        await asyncio.sleep(1 + 2 * self.rng.random())
        self._heal(deaf)
        self._delay(leader, controller, 0)
        return True

    async def moved_and_back(self) -> bool:
        """While a leader hears nothing of the controllers, its lead goes to the preferred replica
        and comes back; of the followers one has followed the other leader meanwhile."""
        cast = self._cast(
            lambda state: state.leader != state.replicas[0] and state.replicas[0] in state.isr
        )
        if cast is None:
            return False
        leader, preferred = cast.leader, cast.others[0]
        self._delay(preferred, leader, 0.2)
        await self.promises.until_something_is_promised(1)
        await asyncio.sleep(0.1 * self.rng.random())
        cut = [(leader, controller) for controller in self.controllers]
        cut.append((leader, preferred))
        self._cut(cut)
        await self._elect(cast.partition, preferred.name)
        await asyncio.sleep(0.3 * self.rng.random())
        preferred.kill()
        await asyncio.sleep(0.3 * self.rng.random())
        self._heal(cut)
        await asyncio.sleep(self.rng.choice((0.01, 0.1, 0.5)) * self.rng.random())
        if self.rng.random() < 0.5:
            leader.kill()
        self._delay(preferred, leader, 0)
        await self.down_time()
        preferred.start()
        leader.start()
        return True

    # -- means ------------------------------------------------------------------------------

    def _cast(self, suits: Callable[[PartitionState], bool]) -> Cast | None:
        image = self.promises.invariants.image
        if image is None:
            return None
        found = []
        for key, state in image.partitions():
            members = [each for each in state.replicas if each in state.isr]
            if state.leader in members and len(members) > 1 and suits(state):
                topic = image.topics[key.topic_id].name
                brokers = [self.cluster.brokers[each] for each in members]
                leader = self.cluster.brokers[state.leader]
                others = [each for each in brokers if each is not leader]
                found.append(Cast(TopicPartition(topic, key.partition), state, leader, others))
        return self.rng.choice(found) if found else None

    def _delay(self, source: Daemon, target: Daemon, seconds: float) -> None:
        self.world.network.delay(source.host, target.host, seconds)

    def _cut(self, pairs: list[tuple[Daemon, Daemon]]) -> None:
        for one, other in pairs:
            self.world.network.block(one.host, other.host)
            self.world.network.block(other.host, one.host)

    def _heal(self, pairs: list[tuple[Daemon, Daemon]]) -> None:
        for one, other in pairs:
            self.world.network.unblock(one.host, other.host)
            self.world.network.unblock(other.host, one.host)

    async def _elect(self, partition: TopicPartition, name: str) -> None:
        """An operator asks for the preferred leader; at most a second is waited for it."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def ask(runtime: SimRuntime) -> None:
            try:
                async with Admin(
                    bootstrap_servers=self.cluster.bootstrap,
                    runtime=runtime,
                    default_api_timeout_ms=900,
                    request_timeout_ms=900,
                ) as admin:
                    await admin.elect_leaders(ElectionType.PREFERRED, [partition])
            except MinikafkaError as error:
                self.world.trace.emit("mover", "failed", type(error).__name__)
            if not done.done():
                done.set_result(None)

        self._movers += 1
        mover = f"mover-{self._movers}"
        self.world.trace.emit("mover", "moves", partition, "to", name)
        self.world.start(self.world.add_host(mover), mover, ask)
        await asyncio.wait([done], timeout=1)
