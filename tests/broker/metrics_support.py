"""One scrape of some collectors, read by the parser of Prometheus; a broker that tells all."""

from collections.abc import Iterable
from itertools import chain

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from minikafka.broker.metrics.collectors import ToldOf, collectors_of
from minikafka.broker.net.timing import RequestTimes
from minikafka.broker.partition.traffic import Traffic
from minikafka.broker.replication.isr_proposals import IsrProposals
from minikafka.runtime.metrics import Collector, Format, write

from .channel_support import FakeChannel
from .group_support import GroupBroker
from .node_support import ME

MANAGER = "kafka_server_replicamanager_"


class Scrape:
    """What was told, by name and labels."""

    def __init__(self, collectors: Iterable[Collector]) -> None:
        families = chain.from_iterable(collect() for collect in collectors)
        text = b"".join(write(families, Format.OPEN_METRICS)).decode()
        parsed = list(text_string_to_metric_families(text))  # type: ignore[no-untyped-call]
        self.names = [family.name for family in parsed]
        self.samples = [sample for family in parsed for sample in family.samples]

    def __call__(self, name: str, **labels: str | int) -> float:
        """The one sample of that name that has these labels, and perhaps others."""
        (value,) = self.every(name, **labels)
        return value

    def every(self, name: str, **labels: str | int) -> list[float]:
        wanted = {key: str(value) for key, value in labels.items()}.items()
        return [
            sample.value
            for sample in self.samples
            if sample.name == name and wanted <= sample.labels.items()
        ]


class Told(GroupBroker):
    """A broker with everything that tells of it."""

    collectors: tuple[Collector, ...] = ()

    async def begin(self) -> "Told":
        self.traffic = Traffic()
        self.clock_us = 0
        self.times = RequestTimes(lambda: self.clock_us)
        await self.open()
        self.channel = FakeChannel()
        self.changes = IsrProposals(self.runtime, self.channel.as_channel(), ME)
        self.propose = self.changes.propose
        self.collectors = collectors_of(self.edge, ToldOf(self.changes, self.peers, self.times))
        return self

    def scrape(self) -> Scrape:
        return Scrape(self.collectors)

    def count(self, name: str) -> float:
        return self.scrape()(MANAGER + name)

    async def end(self) -> None:
        await self.changes.close()
        await self.close()
