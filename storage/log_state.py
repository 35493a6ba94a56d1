"""The state of a log that its parts share."""

from typing import Protocol

from .topic_config import TopicConfig


class LogState(Protocol):
    """A log's bounds and configuration, which only the log itself changes."""

    @property
    def log_start_offset(self) -> int:
        """First readable offset."""

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""

    @property
    def cuts(self) -> int:
        """Changes with each truncation: what was seen before a change may be gone."""

    @property
    def config(self) -> TopicConfig:
        """The topic's configuration as it is now."""
