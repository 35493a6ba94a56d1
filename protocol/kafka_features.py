"""Translates the levels of minikafka's features into those that Kafka's clients and tools know.

Our metadata.version counts formats of our own metadata log. Kafka's tools expect Kafka's numbers,
so they are shown the number of the release whose protocol we support. Features of Kafka that we
lack are shown with level 0 and range 0-0. Clients then do without these features, and upgrades to
them are refused with the reason.
"""

from typing import Final

from .control.messages import VersionRange
from .control.records import METADATA_VERSION

METADATA_LEVELS: Final = {1: 30}
"""Kafka's level of metadata.version for each of ours; 30 is 4.3-IV0."""
NOT_HERE: Final = dict.fromkeys(
    ("group.version", "kraft.version", "share.version", "streams.version"), VersionRange(0, 0)
)
"""Features of Kafka that minikafka lacks: newer group protocols and a quorum that changes."""


def told_level(feature: str, level: int) -> int:
    """Translate one of our levels into the level that is shown to clients."""
    return METADATA_LEVELS.get(level, level) if feature == METADATA_VERSION else level


def told_range(feature: str, levels: VersionRange) -> VersionRange:
    """Translate a range of our levels into the range that is shown to clients."""
    return VersionRange(told_level(feature, levels.lowest), told_level(feature, levels.highest))


def meant_level(feature: str, told: int) -> int:
    """Translate a level that a client names into one of our levels.

    A level of metadata.version that we lack becomes -1, which no cluster has.
    """
    if feature != METADATA_VERSION:
        return told
    return next((ours for ours, theirs in METADATA_LEVELS.items() if theirs == told), -1)
