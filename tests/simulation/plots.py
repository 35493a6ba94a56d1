"""Faults of several steps against one partition, each step at the worst moment.

Other faults would take thousands of runs to reach the same states. Each is undone before it
returns.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from minikafka.aio import Admin, TopicPartition
from minikafka.broker.coordinator.keys import TRANSACTIONS_TOPIC
from minikafka.broker.replica.silence import SILENT_MS
from minikafka.client.admin.topic_types import ElectionType
from minikafka.protocol.control.image import PartitionState
from minikafka.protocol.control.records import TRANSACTION_VERSION
from minikafka.runtime.errors import MinikafkaError

from .cluster import Daemon
from .faults import Fault, Faults
from .inside import partitions_of
from .world import SimRuntime

TRANSACTIONAL = ("ledger-", "pipe-")
"""The first parts of the names of clients that write transactions."""
CLIENT_PATIENCE_SECONDS = 2.0
"""Seconds that clients wait for an answer."""


@dataclass(frozen=True, slots=True)
class Cast:
    """A partition, its leader, and the other members of its ISR."""

    partition: TopicPartition
    state: PartitionState
    leader: Daemon
    others: list[Daemon]
    """The other members of the ISR, in the order of the replicas: the preferred one first."""


class Plots(Faults):
    """The faults of several steps, each against one partition."""

    _movers = 0

    def table(self) -> dict[str, Fault]:
        return {
            "stale-proposal": self.stale_proposal,
            "late-expansion": self.late_expansion,
            "lead-moved-and-back": self.moved_and_back,
            "late-client": self.late_client,
        }

    async def stale_proposal(self) -> bool:
        """Delay a leader's proposal to remove a follower from the ISR.

        Meanwhile the other follower loses its session. When the proposal arrives, that follower is
        registered again, but receives nothing from its leader; the leader has gone on with the
        first follower, which it hears again.
        """
        cast = self._cast(lambda state: len(state.isr) > 2)
        if cast is None:
            return False
        leader, (out, back, *_) = cast.leader, self.rng.sample(cast.others, len(cast.others))
        controller = self.active_controller()
        silence = min(int(self.shape.broker["replica.lag.time.max.ms"]), SILENT_MS) / 1000
        self._cut([(back, leader)])
        await asyncio.sleep(silence - 1.2 + 0.5 * self.rng.random())
        cut = [(out, other) for other in self.daemons if other is not out]
        self._cut(cut)
        await asyncio.sleep(0.7 + 0.4 * self.rng.random())
        # Nearly a session; yet what the controllers say arrives, to a question asked before.
        self._delay(leader, controller, 1.5)
        await self._until(lambda: _proposes(leader, cast.partition), 1.0)
        self._heal([(back, leader)])
        await self._until(lambda: not self._is_in_sync(cast.partition, out), 2.0)
        deaf = [(out, leader)]
        self._heal([pair for pair in cut if pair not in deaf])
        await asyncio.sleep(1 + self.rng.random())
        self._heal(deaf)
        self._delay(leader, controller, 0)
        return True

    async def late_expansion(self) -> bool:
        """Delay a leader's proposal to take a follower back into the ISR.

        Meanwhile the follower dies or loses power. It is back as a new start of its broker when the
        proposal arrives, but receives nothing from the leader, so this start is not in sync
        (KIP-903).
        """
        cast = self._cast(lambda state: len(state.isr) > 2)
        if cast is None:
            return False
        leader, follower = cast.leader, self.rng.choice(cast.others)
        controller, deaf = self.active_controller(), [(follower, leader)]
        self._cut(deaf)
        await self._until(lambda: not self._is_in_sync(cast.partition, follower), 6.0)
        self._delay(leader, controller, 0.8)  # Nobody gives the connection up yet.
        self._heal(deaf)
        await self._until(lambda: _proposes(leader, cast.partition), 2.0)
        self._cut(deaf)
        if self.promises.survive_without([follower]):
            follower.power_off()
            follower.power_on()
        else:
            follower.kill()
        follower.start()
        await asyncio.sleep(1 + self.rng.random())
        self._delay(leader, controller, 0)
        self._heal(deaf)
        await self._until(lambda: self.promises.are_recovered([follower]), 20.0)
        return True

    async def _until(self, happens: Callable[[], bool], seconds: float) -> None:
        """Poll the condition every hundredth of a second, for `seconds` at most."""
        for _ in range(round(seconds * 100)):
            if happens():
                return
            await asyncio.sleep(0.01)

    def _is_in_sync(self, partition: TopicPartition, member: Daemon) -> bool:
        image = self.promises.invariants.image
        if image is None:
            return False
        for key, state in image.partitions():
            if TopicPartition(image.topics[key.topic_id].name, key.partition) == partition:
                return any(self.cluster.brokers[each] is member for each in state.isr)
        return False

    async def moved_and_back(self) -> bool:
        """Move leadership to the preferred replica and back while the leader is cut off.

        One follower has followed the preferred replica meanwhile. The leader learns of both changes
        at once, because the messages in between are lost with its connections.
        """
        cast = await self._led_by_the_second()
        if cast is None:
            return False
        leader, preferred = cast.leader, cast.others[0]
        self._delay(preferred, leader, 0.2)
        await self.promises.until_something_is_promised(1)
        await asyncio.sleep(0.1 * self.rng.random())
        cut = [(leader, controller) for controller in self.controllers]
        cut.append((leader, preferred))
        self._cut(cut)
        for controller in self.controllers:
            self.world.network.break_connections(leader.host, controller.host)
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

    async def _led_by_the_second(self) -> Cast | None:
        """Find a partition whose preferred replica is in sync and whose leader is the next replica.

        If there is none, kill a leader that is a preferred replica, and wait until it follows
        again.
        """

        def suits(state: PartitionState) -> bool:
            members = [each for each in state.replicas if each in state.isr]
            return len(members) > 2 and members[:2] == [state.replicas[0], state.leader]

        cast = self._cast(suits)
        if cast is not None:
            return cast
        first = self._cast(lambda state: len(state.isr) > 2 and state.leader == state.replicas[0])
        if first is None:
            return None
        first.leader.kill()
        await asyncio.sleep(0.3 * self.rng.random())
        first.leader.start()
        for _ in range(20):
            await asyncio.sleep(0.2)
            cast = self._cast(suits)
            if cast is not None:
                break
        return cast

    async def late_client(self) -> bool:
        """Delay a transactional producer's requests to its coordinator.

        They arrive after the producer has repeated them elsewhere and has perhaps begun the next
        transaction.
        """
        network = self.world.network
        clients = [each for each in network.hosts.values() if each.name.startswith(TRANSACTIONAL)]
        cast = self._cast(lambda _: True, topic=TRANSACTIONS_TOPIC)
        if not clients or cast is None or not self._are_epochs_bumped():
            return False
        client, coordinator = self.rng.choice(clients), cast.leader.host
        network.delay(client, coordinator, CLIENT_PATIENCE_SECONDS + 2 * self.rng.random())
        await asyncio.sleep(0.2 + self.rng.random())
        network.delay(client, coordinator, 0)
        return True

    def _are_epochs_bumped(self) -> bool:
        """Return whether each transaction of a producer has an epoch of its own.

        Otherwise a late end of one transaction may end the next one (guarantee 52).
        """
        image = self.promises.invariants.image
        return image is not None and image.features.get(TRANSACTION_VERSION, 0) >= 2

    # -- means ------------------------------------------------------------------------------

    def _cast(
        self, suits: Callable[[PartitionState], bool], topic: str | None = None
    ) -> Cast | None:
        image = self.promises.invariants.image
        if image is None:
            return None
        found = []
        for key, state in image.partitions():
            members = [each for each in state.replicas if each in state.isr]
            name = image.topics[key.topic_id].name
            is_wanted = name == topic if topic is not None else len(members) > 1
            if is_wanted and state.leader in members and suits(state):
                brokers = [self.cluster.brokers[each] for each in members]
                leader = self.cluster.brokers[state.leader]
                others = [each for each in brokers if each is not leader]
                found.append(Cast(TopicPartition(name, key.partition), state, leader, others))
        return self.rng.choice(found) if found else None

    def _cut(self, pairs: list[tuple[Daemon, Daemon]]) -> None:
        for one, other in pairs:
            self.world.network.block(one.host, other.host)
            self.world.network.block(other.host, one.host)

    def _heal(self, pairs: list[tuple[Daemon, Daemon]]) -> None:
        for one, other in pairs:
            self.world.network.unblock(one.host, other.host)
            self.world.network.unblock(other.host, one.host)

    async def _elect(self, partition: TopicPartition, name: str) -> None:
        """Ask for the election of the preferred leader, and wait for it for at most a second."""
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


def _proposes(leader: Daemon, partition: TopicPartition) -> bool:
    if leader.process is None:
        return False
    replicas = partitions_of(leader.process).values()
    return any(
        each.leader is not None and each.leader.proposal is not None
        for each in replicas
        if (each.topic, each.index) == partition
    )
