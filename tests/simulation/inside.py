"""Where the product keeps what invariants look at: the only module that knows its private parts."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from operator import attrgetter
from typing import Any
from unittest.mock import patch

from minikafka.broker.partition import Partition
from minikafka.broker.partitions import Partitions
from minikafka.broker.server import Broker
from minikafka.controller.driver import Controller
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.types import TopicIdPartition

from .loop import PROCESS, Process

NOTHING: Mapping[TopicIdPartition, Partition] = {}


@contextmanager
def watched() -> Iterator[None]:
    """While this lasts, a process knows the product that it runs, from its first moment on."""

    def watching(cls: Any, attribute: str) -> Any:
        construct = cls.__init__

        def init(self: Any, *args: Any, **options: Any) -> None:
            construct(self, *args, **options)
            process = PROCESS.get()
            if process is not None:
                setattr(process, attribute, self)

        return patch.object(cls, "__init__", init)

    with (
        watching(Partitions, "partitions"),
        watching(Broker, "broker"),
        watching(Controller, "controller"),
    ):
        yield


def partitions_of(process: Process) -> Mapping[TopicIdPartition, Partition]:
    """The replicas of a broker process."""
    partitions = process.partitions
    return NOTHING if partitions is None else partitions._partitions


seen: Callable[[Partition], tuple[object, int, int, int]] = attrgetter(
    "leader", "metadata.leader_epoch", "high_watermark", "log.log_end_offset"
)
"""What changes when anything does: see truth.Seen."""


def image_of_controller(process: Process) -> MetadataImage | None:
    """What an active controller has committed: decisions not yet on its disk may be undone."""
    controller = process.controller
    return controller.committed if controller is not None and controller._is_active else None


def image_of_broker(process: Process) -> MetadataImage | None:
    """The metadata that a broker follows."""
    broker = process.broker
    return broker.follower.image if broker is not None else None


def active(cluster: Any) -> Controller | None:
    """The active controller object of the newest epoch, None while there is none."""
    found: Controller | None = None
    for daemon in cluster.controllers.values():
        process = daemon.process
        controller = process.controller if process is not None and process.alive else None
        if controller is None or not controller._is_active:
            continue
        if found is None or controller.quorum.epoch > found.quorum.epoch:
            found = controller
    return found
