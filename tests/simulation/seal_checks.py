"""Checks that nothing of a stranger counts where the control plane is sealed.

33: a heartbeat that counts was sent by a broker, and counts once with each session.
34: nothing in the metadata is a stranger's.
"""

from collections.abc import Iterator

from minikafka.protocol.control.image import MetadataImage

from .cluster import Daemon
from .ear import THIEF, Ear
from .inside import admitted_datagrams
from .loop import Process

STOLEN = "stolen"
"""The topic that the stranger tries to create."""


class SealChecks:
    """Follows every controller."""

    def __init__(self) -> None:
        self.ear: Ear | None = None
        """What went over the network; None if nothing is sealed."""
        self._counted: dict[bytes, None] = {}

    def check(self, daemon: Daemon, process: Process) -> Iterator[str]:
        for content, tag in admitted_datagrams(process):
            if self.ear is None:
                continue
            # A tag is made with the key of one session, so that another controller has another.
            if (content, tag) not in self.ear.true:
                yield f"invariant 33: {daemon.name} counts a heartbeat that no broker has sent"
            elif tag in self._counted:
                yield f"invariant 33: {daemon.name} counts a heartbeat twice"
            self._counted[tag] = None

    def check_image(self, image: MetadataImage) -> Iterator[str]:
        """Yield what in the newest committed metadata is a stranger's."""
        if image.topic(STOLEN) is not None:
            yield "invariant 34: a stranger has created a topic"
        for broker in image.brokers.values():
            if any(each.host == THIEF for each in broker.endpoints):
                yield f"invariant 34: a stranger is registered as broker {broker.broker_id}"
