"""The console's desk: what every screen may use."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ...runtime.runtime import Runtime
from . import asking
from .link import Link
from .pages import Pages
from .views.sight import Sight

SIGHT_MS: Final = 2_000
MOST_REMEMBERED: Final = 100
"""A look at the whole cluster is used for so long, by all tabs."""


class NotThere(MinikafkaError):
    """Something that a path names and the cluster does not have."""


@dataclass(slots=True)
class Desk:
    """The way to the cluster and the templates, of one console."""

    link: Link
    pages: Pages
    token: str
    allow_changes: bool
    streams: int = 0
    """Moving pages that are open."""
    scans: int = 0
    """Scans of messages that run."""
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the console is told to stop: whatever moves ends."""
    ends: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """Log ends of the partitions looked at last, by broker: where a broker was before it died."""

    def remember(self, where: TopicPartition, ends: dict[int, int]) -> None:
        """Keep the log ends of a partition, and forget those of the one looked at longest ago."""
        self.ends.pop(where, None)
        self.ends[where] = ends
        if len(self.ends) > MOST_REMEMBERED:
            del self.ends[next(iter(self.ends))]

    async def sight(self) -> Sight:
        """Look at the cluster, or use what another tab has seen a moment ago."""
        return await self.link.shared(SIGHT_MS, asking.sight, self.link.runtime)


def desk_for(
    runtime: Runtime, settings: Mapping[str, str], token: str, *, allow_changes: bool = False
) -> Desk:
    """Make the desk of a console for the cluster that client settings name."""
    link = Link(runtime, settings)
    pages = Pages(link.bootstrap, token, allow_changes=allow_changes)
    return Desk(link, pages, token, allow_changes)
