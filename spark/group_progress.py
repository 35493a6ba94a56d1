"""Commits a streaming query's progress for a consumer group, so that every tool sees its lag.

This is only a hint, because Spark's checkpoint alone decides where a query continues. Nothing reads
these offsets back, and a failure here neither fails the query nor delays it for long.
"""

import logging
import time
from collections.abc import Mapping
from typing import Final

from ..client.admin.sync_admin import Admin
from ..client.config import AdminConfig
from ..protocol.types import TopicPartition
from ..runtime.errors import MinikafkaError
from .options import Offsets
from .worker_clients import known_to

log = logging.getLogger(__name__)

PATIENCE_MS: Final = 5000
"""The longest time that one commit may delay a trigger."""
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 60.0
"""After each failure in a row the pause before the next commit doubles, up to this."""
AGAIN_SECONDS: Final = 3600.0
"""An idle query commits the same offsets again after this time, so that they do not expire."""


class GroupProgress:
    """Commits a query's progress for one group, opening its connection on first use."""

    def __init__(self, group: str, settings: Mapping[str, str]) -> None:
        self.group = group
        self._settings = known_to(AdminConfig, settings)
        self._settings["default.api.timeout.ms"] = str(PATIENCE_MS)
        # The first connection is made within a trigger too.
        self._settings["bootstrap.timeout.ms"] = str(PATIENCE_MS)
        self._admin: Admin | None = None
        self._told: Offsets = {}
        self._next_at = 0.0
        self._pause_seconds = 0.0
        self._complaint = ""

    def tell(self, offsets: Offsets) -> None:
        """Commit where the next batch starts, unless that was committed already.

        Never raises for errors of the cluster: a failure is logged, and newer offsets are committed
        after a pause.
        """
        now = time.monotonic()
        if now < self._next_at and (self._pause_seconds or offsets == self._told):
            return
        try:
            self._commit(offsets)
        except (MinikafkaError, OSError) as error:
            self._pause_seconds = min(
                LONGEST_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, 2 * self._pause_seconds)
            )
            self._next_at = time.monotonic() + self._pause_seconds
            if str(error) != self._complaint:
                self._complaint = str(error)
                log.warning(
                    "group %s was not told how far the query has come; the query goes on, and it "
                    "will be tried again: %s",
                    self.group,
                    error,
                )
            return
        self._told = {topic: dict(by) for topic, by in offsets.items()}
        self._next_at = now + AGAIN_SECONDS
        self._pause_seconds = 0.0
        self._complaint = ""

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _commit(self, offsets: Offsets) -> None:
        committed = {
            TopicPartition(topic, partition): offset
            for topic, by in offsets.items()
            for partition, offset in by.items()
        }
        if not committed:
            return
        if self._admin is None:
            self._admin = Admin.from_config({"client.id": "minikafka-spark", **self._settings})
        self._admin.alter_group_offsets(self.group, committed)
