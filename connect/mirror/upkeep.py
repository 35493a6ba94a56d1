"""The admins of both ends of a flow, on a loop in a thread, and the jobs repeated there."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import Any

from ...client.admin.admin import Admin
from ...client.admin.topic_types import NewTopic
from ...client.errors import AdminError, ClientClosed
from ...client.sync_loop import LoopThread, wait_for
from ...protocol.errors import ErrorCode
from ...runtime.errors import MinikafkaError
from ..api import ConnectError, ConnectorContext, Props
from .keys import client_settings

log = logging.getLogger(__name__)

GRACE_S = 5.0


class Upkeep:
    """Connects to both clusters, and asks them at intervals until `stop`.

    A connector's calls come from the worker's threads; the jobs run on the loop here.
    """

    def __init__(
        self, props: Props, context: ConnectorContext, ends: Sequence[str] = ("source", "target")
    ) -> None:
        """`ends` are those that are asked; another one need not be there."""
        self.name = (
            f"{props['source.cluster.alias']}->{props.get('target.cluster.alias', 'target')}"
        )
        self._context = context
        self._ends = ends
        self._jobs: list[Future[None]] = []
        self.source, self.target = (
            Admin.from_config(admin_settings(props, end)) for end in ("source", "target")
        )
        self._thread = LoopThread(f"mirror-{self.name}")

    def begin(self, first: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> None:
        """Connect and run `first`. If that fails, or takes longer than `timeout_s`, stop and raise.

        Raise ConnectError after the timeout, and what fails otherwise.
        """
        try:
            wait_for(self._thread.submit(self._open(first)), timeout_s)
        except TimeoutError:
            self.stop()
            raise ConnectError(f"{self.name}: no answer within {timeout_s:.0f} s") from None
        except BaseException:
            self.stop()
            raise

    async def _open(self, first: Callable[[], Awaitable[None]]) -> None:
        for end, admin in (("source", self.source), ("target", self.target)):
            if end in self._ends:
                await admin.start()
        await first()

    def every(self, seconds: int, doing: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job every so many seconds, the first time after them.

        A job that a cluster refuses is logged and tried again; another error fails the connector.
        """
        self._jobs.append(self._thread.submit(self._repeat(seconds, doing, job)))

    async def _repeat(self, seconds: int, doing: str, job: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await job()
            except ClientClosed:
                return
            except MinikafkaError as error:
                log.warning("%s: %s failed, next try in %d s: %s", self.name, doing, seconds, error)
            except Exception as error:
                self._context.fail(error)
                raise

    def run(self, job: Callable[[], Coroutine[Any, Any, None]], timeout_s: float) -> None:
        """Run a job now and wait for it; raise what it raises, TimeoutError after `timeout_s`."""
        wait_for(self._thread.submit(job()), timeout_s)

    def stop(self) -> None:
        """Cancel the jobs, disconnect, and end the thread; waits 5 s at most for each."""
        for job in self._jobs:
            job.cancel()
        with contextlib.suppress(TimeoutError, ClientClosed):
            wait_for(self._thread.submit(self._close()), GRACE_S)
        self._thread.stop()

    async def _close(self) -> None:
        await self.source.close()
        await self.target.close()


def admin_settings(props: Props, end: str) -> dict[str, str]:
    """Return the settings of the admin of one end; calls take at most admin.timeout.ms."""
    timeout = {"default.api.timeout.ms": props.get("admin.timeout.ms", "60000")}
    return timeout | client_settings(props, end, "admin")


async def make_compacted(admin: Admin, topic: str, replicas: int) -> None:
    """Create a compacted topic of one partition unless it is there; raise AdminError if refused."""
    await make_topics(admin, [NewTopic(topic, 1, replicas, configs={"cleanup.policy": "compact"})])


async def make_topics(admin: Admin, topics: list[NewTopic]) -> None:
    """Create topics that are not there; raise AdminError with those that are refused."""
    try:
        await admin.create_topics(topics)
    except AdminError as error:
        refused = {
            name: one
            for name, one in error.errors.items()
            if one.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }
        if refused:
            raise AdminError(refused) from None
