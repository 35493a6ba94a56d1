"""Reports replicas that are lost with a failed directory, until the controller accepts that.

The controller elects other leaders for them, and lets this broker lead them again only after a
restart. The broker continues with its other directories. If it cannot report the lost replicas
within `log.dir.failure.timeout.ms`, it stops (KIP-858), because clients that take it for the leader
would wait for ever. The cause of the failure is not reported; heartbeats name the failed
directories.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from ...client.net.backoff import Backoff
from ...protocol.control.messages import LostReplica, OfflinePartitions
from ...protocol.errors import ApiError
from ...protocol.types import TopicIdPartition
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ..control.controller_channel import ControllerChannel

RETRY: Final = Backoff(first_ms=20, most_ms=1000, steady_count=5)

log = logging.getLogger(__name__)


class LostReplicas:
    """Reports lost replicas to the controller."""

    def __init__(
        self,
        runtime: Runtime,
        channel: ControllerChannel,
        timeout_ms: int,
        give_up: Callable[[str], None],
    ) -> None:
        """`give_up` is called with the reason why this broker must stop."""
        self._runtime = runtime
        self._channel = channel
        self._timeout_ms = timeout_ms
        self._give_up = give_up
        self._untold: dict[TopicIdPartition, None] = {}
        self._task = OwnedTask(runtime, "lost replicas")

    def __len__(self) -> int:
        return len(self._untold)

    def lose(self, replicas: Iterable[TopicIdPartition]) -> None:
        """Report replicas that cannot be served until the broker restarts."""
        self._untold.update(dict.fromkeys(replicas))
        if self._untold:
            self._task.start(self._run)

    async def close(self) -> None:
        """Stop reporting."""
        await self._task.stop()

    async def _run(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                await self._tell()
        except TimeoutError:
            self._give_up(
                f"a log directory failed, and no controller heard of it for {self._timeout_ms} ms"
            )

    async def _tell(self) -> None:
        failures = 0
        await self._channel.wait_until_registered()
        while self._untold:
            told = dict(self._untold)
            try:
                error = await self._tell_once(told)
            except ApiError as refused:
                error = str(refused)
            if error is None:
                failures = 0
                for replica in told:
                    del self._untold[replica]
                continue
            if not failures:
                log.warning("%d lost replicas not reported yet: %s", len(told), error)
            failures += 1
            await asyncio.sleep(RETRY.after(failures, self._runtime.rng) / 1000)

    async def _tell_once(self, told: Iterable[TopicIdPartition]) -> str | None:
        channel = self._channel
        replicas = tuple(LostReplica(each.topic_id, each.partition) for each in told)
        request = OfflinePartitions(channel.broker_id, channel.broker_epoch, replicas)
        answer = await channel.call(request)
        return f"{answer.error} {answer.message}" if answer.error else None
