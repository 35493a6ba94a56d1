"""Leader leases on the active controller: grants them, and elects leaders once they are over.

`LeaderLeases` decides which elections wait, `sweeps.released` which broker then leads. If leases
are off (`leader.lease.enable`), these methods change nothing.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import replace

from ..protocol.control.messages import BrokerHeartbeat, HeartbeatAnswer, RegisterBroker
from ..protocol.control.records import MetadataRecord
from ..protocol.errors import ApiError
from .driver import Controller
from .metadata.leader_leases import NONE_GRANTED, LeaderLeases, Released
from .metadata.sweeps import released as elect_released


class Handovers:
    """Delays elections until the old leader's lease is over: no partition has two leaders."""

    def __init__(self, controller: Controller, lease_ms: int) -> None:
        """`lease_ms` is how long a broker may lead without our answer; 0 turns leases off."""
        self._controller = controller
        self._leases = LeaderLeases(lease_ms) if lease_ms else None
        self._timer: asyncio.TimerHandle | None = None
        controller.cluster.leases = self._leases

    def close(self) -> None:
        """Cancel the timer."""
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def on_active(self) -> None:
        """Start over: this controller has just become active."""
        if self._leases is not None:
            self._leases.restart(self._controller.cluster.image, self._now_ms())
            self._set_timer()

    def on_replayed(self, records: Sequence[MetadataRecord]) -> None:
        """Note changes of leaders in records just applied to the image for decisions."""
        if self._leases is not None:
            self._leases.on_replayed(records, self._controller.cluster.image.offset)

    # Messages of brokers.

    def on_registering(self, request: RegisterBroker) -> None:
        """Elect at once if the new start of the broker has a directory of the earlier one."""
        old = self._controller.cluster.image.brokers.get(request.broker_id)
        if (
            self._leases is not None
            and old is not None
            and old.incarnation_id != request.incarnation_id
            and any(directory in old.directory_ids for directory in request.directory_ids)
        ):
            # It holds the directory's lock, which the old start would hold if it were alive.
            self._elect(self._leases.on_given_up(request.broker_id))

    def on_given_up(self, broker_id: int) -> None:
        """Elect at once: the broker has asked to be fenced or to shut down, and leads no more."""
        if self._leases is not None:
            self._elect(self._leases.on_given_up(broker_id))

    def on_applied(self, broker_id: int, offset: int) -> None:
        """Elect leaders where this broker has applied the metadata that ended its leadership."""
        if self._leases is not None:
            self._elect(self._leases.on_applied(broker_id, offset))

    def granted(self, asked: BrokerHeartbeat, answer: HeartbeatAnswer) -> HeartbeatAnswer:
        """Return the answer to a heartbeat with the longest lease that can be granted."""
        if self._leases is None:
            return answer
        lease_ms = NONE_GRANTED
        if not (answer.error or answer.is_fenced or answer.should_shut_down):
            contact_ms = self._controller.quorum.majority_contact_ms()
            lease_ms = self._leases.grant(
                asked.broker_id, asked.metadata_offset, self._now_ms(), contact_ms
            )
            self._set_timer()
        return replace(answer, lease_ms=lease_ms)

    def refused(self, answer: HeartbeatAnswer) -> HeartbeatAnswer:
        """Return the answer to a heartbeat with the note that no lease is granted."""
        return answer if self._leases is None else replace(answer, lease_ms=NONE_GRANTED)

    # Time.

    def _set_timer(self) -> None:
        """Set the timer for the end of the next lease, unless one is set."""
        assert self._leases is not None
        due_ms = self._leases.next_deadline_ms()
        if self._timer is None and due_ms is not None:
            delay_ms = max(0, due_ms - self._now_ms())
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._leases is not None and self._controller.is_active:
            self._elect(self._leases.on_deadline(self._now_ms()))
            self._set_timer()

    def _elect(self, partitions: Released) -> None:
        if partitions:
            # If this controller was deposed, the next one waits for all leases anew.
            with contextlib.suppress(ApiError):
                self._controller.carry_out(elect_released(self._controller.cluster, partitions))

    def _now_ms(self) -> int:
        return self._controller.runtime.monotonic_ms()
