"""Scrapes daemons from time to time, in any state that a step has left them in (invariant 32).

The requests about groups that a scrape starts are left out, because a check must change nothing.
"""

from collections.abc import Iterable, Iterator

from minikafka.broker.metrics.connections import ConnectionMetrics
from minikafka.broker.metrics.coordinators import CoordinatorMetrics
from minikafka.broker.metrics.labelled import Labelled
from minikafka.broker.metrics.logs import LogMetrics
from minikafka.broker.metrics.partitions import PartitionMetrics
from minikafka.broker.metrics.replication import ReplicationMetrics
from minikafka.broker.server import Broker
from minikafka.controller.api.sessions import Sessions
from minikafka.controller.driver import Controller
from minikafka.controller.metrics import ControllerMetrics
from minikafka.runtime.metrics import Collector, Kind
from minikafka.security.control_seal import DatagramGuards

from .loop import Process

EVERY = 50
"""The number of changes of a process between two scrapes of it."""


class Scrapes:
    """Scrapes one process, and remembers its counts."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._changes = 0
        self._collectors: tuple[Collector, ...] = ()
        self._counts: dict[str, float] = {}

    def on_changed(self) -> Iterator[str]:
        """Count a change, and after each EVERY changes scrape the process and check the result."""
        self._changes += 1
        if self._changes % EVERY:
            return
        name = self._process.name
        try:
            counts = dict(self._scrape())
        except Exception as error:
            yield f"invariant 32: {name} cannot be scraped: {error!r}"
            return
        for sample, before in self._counts.items():
            if counts.get(sample, before) < before:
                yield f"invariant 32: {name} {sample} went from {before} to {counts[sample]}"
        self._counts = counts

    def _scrape(self) -> Iterable[tuple[str, float]]:
        process = self._process
        if not self._collectors:
            if process.broker is not None:
                self._collectors = _of_broker(process.broker)
            elif process.controller is not None:
                self._collectors = _of_controller(process.controller)
        for collect in self._collectors:
            for family in collect():
                for tail, value in family.samples:
                    is_count = family.kind is Kind.COUNTER or tail.startswith(("_count", "_sum"))
                    if is_count:
                        yield f"{family.name}{tail}", value
                for line in family.lines:
                    float(line.rpartition(" ")[2])


def _of_broker(broker: Broker) -> tuple[Collector, ...]:
    parts = broker.parts
    edge = parts.edge
    labelled = Labelled(edge.partitions)
    return (
        PartitionMetrics(edge, labelled),
        LogMetrics(edge.runtime, edge.partitions.store, labelled),
        ReplicationMetrics(parts.proposals, labelled),
        CoordinatorMetrics(edge),
        ConnectionMetrics(edge),
    )


def _of_controller(controller: Controller) -> tuple[Collector, ...]:
    return (ControllerMetrics(controller, Sessions(1_000), DatagramGuards(is_required=False)),)
