"""The state of a console that all its screens share."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...client.admin.cluster_types import BrokerDescription
from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import Runtime
from . import asking
from .link import Link
from .pages import Pages
from .views.elections import Elections
from .views.sight import Sight

SIGHT_MS: Final = 2_000
"""Milliseconds for which all tabs use the same state of the cluster."""
MOST_REMEMBERED: Final = 100
"""The most partitions whose log ends are kept."""


class NotThere(MinikafkaError):
    """A path names something that the cluster does not have."""


@dataclass(slots=True)
class Desk:
    """The link to the cluster, the templates, and counters of one console."""

    link: Link
    pages: Pages
    token: str
    allow_changes: bool
    streams: int = 0
    """The number of live pages that are open."""
    scans: int = 0
    """The number of scans of messages that are running."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the console shall stop; all streams end then."""
    ends: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """Log ends by broker, of the partitions that were viewed last; they stay known if a broker
    dies."""

    elections: Elections = field(default_factory=Elections)

    def remember(self, where: TopicPartition, ends: dict[int, int]) -> None:
        """Keep a partition's log ends, for the MOST_REMEMBERED partitions viewed last."""
        self.ends.pop(where, None)
        self.ends[where] = ends
        if len(self.ends) > MOST_REMEMBERED:
            del self.ends[next(iter(self.ends))]

    async def sight(self) -> Sight:
        """Read the state of the cluster, or use a result that is at most SIGHT_MS old."""
        found = await self.link.shared(SIGHT_MS, asking.sight, self.link.runtime)
        self.elections.on_sight(found)
        return found

    async def brokers(self) -> tuple[BrokerDescription, ...]:
        """Describe the brokers that are not fenced."""
        seen = await self.link.shared(SIGHT_MS, asking.cluster)
        return tuple(one for one in seen.brokers if not one.is_fenced)


def desk_for(
    runtime: Runtime, settings: Mapping[str, str], token: str, *, allow_changes: bool = False
) -> Desk:
    """Make the desk of a console; the client settings name the cluster."""
    link = Link(runtime, settings)
    pages = Pages(link.bootstrap, token, allow_changes=allow_changes)
    return Desk(link, pages, token, allow_changes)
