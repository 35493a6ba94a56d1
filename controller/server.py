"""A running controller: log, decisions, listener, liveness; how they start and stop.

Order of start: lock and identity, log and epoch, metadata, then the doors (TCP, and UDP under the
same number). Order of stop: doors, connections, what is pending, log, lock.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from ..protocol.control.messages import Endpoint
from ..protocol.types import uuid_to_text
from ..runtime.errors import ConfigError
from ..runtime.runtime import Runtime
from ..storage.directory import LogDirectory
from .api.answers import Answers
from .api.session import Session
from .config import ControllerConfig, Listener, listener_of
from .driver import Controller, Settings
from .liveness import Liveness
from .quorum.metadata_log import MetadataLog
from .quorum.single_voter import SingleVoter
from .upkeep import Upkeep

BIND_ATTEMPTS: Final = 10
"""With port 0, how often to look for a number that is free for TCP and UDP."""

log = logging.getLogger(__name__)


class ControllerServer:
    """Everything that one controller process runs."""

    def __init__(
        self,
        runtime: Runtime,
        config: ControllerConfig,
        directory: LogDirectory,
        *,
        quorum: SingleVoter,
        on_failed: Callable[[str], None],
    ) -> None:
        """Use `start`."""
        self.runtime = runtime
        self.config = config
        cluster_id = directory.cluster_id or ""
        self.settings = Settings(
            node_id=config.node_id,
            cluster_id=cluster_id,
            session_ms=config.broker_session_timeout_ms,
            snapshot_interval_bytes=config.snapshot_interval_bytes,
            defaults=config.defaults,
        )
        self.controller = Controller(runtime, quorum, self.settings, on_failed=on_failed)
        self.liveness = Liveness(
            runtime,
            self.controller.leases,
            cluster_id=cluster_id,
            on_expired=self.controller.on_lease_expired,
            endpoint_of=self._endpoint_of,
        )
        self.upkeep = Upkeep(self.controller, config.balance)
        self.answers = Answers()
        self.sessions: dict[Session, None] = {}
        self._directory = directory
        self._doors: asyncio.Server | None = None
        self.address: tuple[str, int] = ("", 0)
        """Where it listens, once it does."""

    @classmethod
    async def start(
        cls, runtime: Runtime, config: ControllerConfig, on_failed: Callable[[str], None]
    ) -> "ControllerServer":
        """Start everything; ConfigError or StorageError when that is not possible."""
        directory = await LogDirectory.open(
            runtime, config.directory, node_id=config.node_id, cluster_id=config.cluster_id
        )
        try:
            # No format step: the first start of the first controller makes the cluster.
            cluster_id = directory.cluster_id or uuid_to_text(runtime.rng.randbytes(16))
            await directory.join(cluster_id)
            metadata_log = await MetadataLog.open(runtime, directory.files)
            quorum = await SingleVoter.open(
                runtime, metadata_log, node_id=config.node_id, cluster_id=cluster_id
            )
        except BaseException:
            directory.abandon()
            raise
        server = cls(runtime, config, directory, quorum=quorum, on_failed=on_failed)
        try:
            await server.controller.start()
            await server._open_doors(listener_of(config))
        except BaseException:
            await server.stop()
            raise
        server.liveness.set_timer()
        return server

    def ready(self) -> Mapping[str, object]:
        """For whoever waits until brokers can register."""
        name = listener_of(self.config).name
        return {"node_id": self.config.node_id, "listeners": {name: list(self.address)}}

    async def stop(self) -> None:
        """Stop taking requests, finish what is pending, close the log."""
        if self._doors is not None:
            self._doors.close()
        await self.liveness.close()
        self.upkeep.close()
        for session in list(self.sessions):
            session.close()
        await self.controller.stop()
        self._directory.abandon()

    async def _open_doors(self, listener: Listener) -> None:
        """Listen on TCP and, under the same number, on UDP."""
        loop = asyncio.get_running_loop()
        shown = f"{listener.name}://{listener.host}:{listener.port}"
        # No name: every address of the machine, by one socket of the older family.
        host = listener.host or "0.0.0.0"
        for attempt in range(BIND_ATTEMPTS):
            try:
                doors = await loop.create_server(self._on_connected, host, listener.port)
            except OSError as error:
                raise ConfigError("listeners", shown, f"cannot listen: {error}") from error
            address = doors.sockets[0].getsockname()
            try:
                await self.liveness.listen(host, address[1])
            except OSError as error:
                doors.close()
                if listener.port == 0 and attempt + 1 < BIND_ATTEMPTS:
                    continue
                why = f"cannot receive heartbeats (UDP): {error}"
                raise ConfigError("listeners", shown, why) from error
            self._doors, self.address = doors, (address[0], address[1])
            return

    def _on_connected(self) -> asyncio.BufferedProtocol:
        session = Session(self)
        self.sessions[session] = None
        return session.stream

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        broker = self.controller.committed.brokers.get(broker_id)
        return broker.endpoints[0] if broker is not None and broker.endpoints else None
