"""The timer of the active controller that removes expired delegation tokens.

It runs only while there are tokens. Each round removes all that have expired, as
`metadata.tokens` decides.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from ..protocol.control.records import DelegationTokenRecord, MetadataRecord
from .driver import Controller
from .metadata.decision import DECISION_RECORDS_MAX
from .metadata.tokens import remove_expired

AGAIN_S: Final = 1
"""Seconds until the next round if there were too many tokens for one."""

log = logging.getLogger(__name__)


class TokenExpiry:
    """Removes expired tokens again and again, as long as there are any tokens."""

    def __init__(self, controller: Controller, interval_ms: int) -> None:
        self._controller = controller
        self._interval_s = interval_ms / 1000
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_active(self) -> None:
        """Begin anew: this controller has just become active."""
        self.close()
        if self._controller.cluster.image.tokens:
            self._set_timer(self._interval_s)

    def on_replayed(self, records: Sequence[MetadataRecord]) -> None:
        """Set the timer if it is not set and the records hold a token."""
        if self._timer is None and any(isinstance(r, DelegationTokenRecord) for r in records):
            self._set_timer(self._interval_s)

    def _set_timer(self, delay_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        controller = self._controller
        if not controller.is_active:
            return
        decision = remove_expired(controller.cluster, controller.runtime.wall_ms())
        if decision.answer:
            log.info("delegation tokens that have expired are removed: %d", decision.answer)
            controller.carry_out(decision)
        if controller.cluster.image.tokens and self._timer is None:
            is_more = decision.answer == DECISION_RECORDS_MAX
            self._set_timer(AGAIN_S if is_more else self._interval_s)
