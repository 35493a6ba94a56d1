"""A broker that tells all."""

from minikafka.broker.metrics.collectors import ToldOf, collectors_of
from minikafka.broker.metrics.group_lag import GroupLag
from minikafka.broker.net.timing import RequestTimes
from minikafka.broker.partition.traffic import Traffic
from minikafka.broker.replication.isr_proposals import IsrProposals
from minikafka.runtime.metrics import Collector

from ..support.scrape import Scrape
from .channel_support import FakeChannel
from .group_support import GroupBroker
from .node_support import ME

MANAGER = "kafka_server_replicamanager_"


class Told(GroupBroker):
    """A broker with all its metrics."""

    collectors: tuple[Collector, ...] = ()

    async def begin(self) -> "Told":
        self.traffic = Traffic()
        self.clock_us = 0
        self.times = RequestTimes(lambda: self.clock_us)
        await self.open(metrics_listener="127.0.0.1:0")
        self.channel = FakeChannel()
        self.changes = IsrProposals(self.runtime, self.channel.as_channel(), ME)
        self.propose = self.changes.propose
        self.lag = GroupLag(self.edge, self.peers)
        self.collectors = collectors_of(self.edge, ToldOf(self.changes, self.lag, self.times))
        return self

    def scrape(self) -> Scrape:
        return Scrape(self.collectors)

    def count(self, name: str) -> float:
        return self.scrape()(MANAGER + name)

    async def end(self) -> None:
        await self.changes.close()
        await self.lag.close()
        await self.close()
