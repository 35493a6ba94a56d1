"""The timers of the active controller: recoveries of leaderless partitions, preferred leaders.

    unclean recovery     once the living replicas have reported their log ends, or 2 s are over
    preferred leaders    every leader.imbalance.check.interval.seconds

`LongestLogs` and `metadata.elections` make the decisions. Timers run only while one is due.
"""

import asyncio
import logging
from collections.abc import Sequence

from ..protocol.control.messages import Noted, ReportLogEnds
from ..protocol.control.records import MetadataRecord, PartitionChangeRecord
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.types import TopicIdPartition
from .config import ControllerConfig
from .driver import Controller
from .metadata.decision import Cluster
from .metadata.elections import BALANCED_AT_ONCE, balance, elect_longest
from .metadata.longest_logs import LongestLogs, Winner

log = logging.getLogger(__name__)


class Upkeep:
    """The timers of the active controller, and the elections that they cause."""

    def __init__(self, controller: Controller, config: ControllerConfig) -> None:
        self._controller = controller
        self._config = config
        self._logs = LongestLogs()
        self._deadline: asyncio.TimerHandle | None = None
        self._due_ms: int | None = None
        self._balance: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Cancel the timers."""
        for timer in (self._deadline, self._balance):
            if timer is not None:
                timer.cancel()
        self._deadline = self._balance = self._due_ms = None

    def on_active(self) -> None:
        """Begin all recoveries and timers anew: this controller has just become active."""
        self.close()
        now_ms = self._controller.runtime.monotonic_ms()
        self._logs.restart(self._controller.cluster.image, now_ms)
        self._set_deadline()
        self._set_balance()

    def on_replayed(self, records: Sequence[MetadataRecord]) -> None:
        """Begin or end unclean recoveries of partitions, as new records of the log say.

        The records have already been applied to the controller's image.
        """
        changed = [
            TopicIdPartition(record.topic_id, record.partition)
            for record in records
            if isinstance(record, PartitionChangeRecord)
            and (record.electing is not None or record.leader is not None)
        ]
        if changed:
            now_ms = self._controller.runtime.monotonic_ms()
            self._logs.on_changed(self._controller.cluster.image, changed, now_ms)
            self._set_deadline()

    async def on_reported(self, request: ReportLogEnds) -> Noted:
        """Keep a broker's reported log ends of leaderless partitions; elect if they suffice."""
        self._controller.check_active()
        cluster = self._controller.cluster
        try:
            cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        except ApiError as error:
            return Noted(error.code, error.detail)
        self._logs.on_reported(cluster.image, request)
        self._elect()
        return Noted(ErrorCode.NONE)

    def _elect(self) -> None:
        """Elect the leaders of partitions whose longest log is known."""
        controller = self._controller
        image, now_ms = controller.cluster.image, controller.runtime.monotonic_ms()
        winners = self._logs.decided(image, now_ms)
        if winners:
            longest = {key: winner.broker_id for key, winner in winners.items()}
            for key, winner in winners.items():
                log.warning("%s", _told(controller.cluster, key, winner))
            controller.carry_out(elect_longest(controller.cluster, longest))
        self._set_deadline()

    def _set_deadline(self) -> None:
        now_ms = self._controller.runtime.monotonic_ms()
        due_ms = self._logs.next_deadline_ms(now_ms)
        if due_ms is None or (self._due_ms is not None and self._due_ms <= due_ms):
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._due_ms = due_ms
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later((due_ms - now_ms) / 1000, self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline = self._due_ms = None
        if self._controller.is_active:
            self._elect()

    def _set_balance(self) -> None:
        if self._config.auto_leader_rebalance_enable:
            delay = self._config.leader_imbalance_check_interval_seconds
            self._balance = asyncio.get_running_loop().call_later(delay, self._on_balance)

    def _on_balance(self) -> None:
        self._balance = None
        controller = self._controller
        if not controller.is_active:
            return
        decision = balance(controller.cluster, self._config.leader_imbalance_per_broker_percentage)
        if decision.answer:
            log.info("preferred leaders lead again: %d partitions", decision.answer)
            controller.carry_out(decision)
        if decision.answer == BALANCED_AT_ONCE:
            loop = asyncio.get_running_loop()
            self._balance = loop.call_later(1, self._on_balance)
        else:
            self._set_balance()


def _told(cluster: Cluster, key: TopicIdPartition, winner: Winner) -> str:
    """Compose the log line of an election: the longest log, and the committed records lost."""
    topic = cluster.image.topics[key.topic_id].name
    end = winner.end
    text = f"{topic}-{key.partition}: the longest log is that of broker {winner.broker_id}"
    text = f"{text}, it ends at {end.log_end_offset} in epoch {end.last_epoch}"
    if winner.lost_until > end.log_end_offset:
        text = f"{text}; committed and lost: {end.log_end_offset}-{winner.lost_until - 1}"
    return text
