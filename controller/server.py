"""A running controller: starts and stops its log, decisions, listener and liveness.

Order of start: lock and identity, log, listeners (TCP, and UDP under the same number), quorum. A
sole voter reports that it is ready only once it is active. Order of stop: pending answers, hand
over, listeners, connections, log, lock.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..client.net.handshakes import Handshakes
from ..client.net.refusals import Refusals
from ..protocol.control.heartbeat import Datagram
from ..protocol.control.image import Delta
from ..protocol.control.messages import ROLE_CONTROLLER, Endpoint
from ..protocol.control.records import MetadataRecord
from ..protocol.types import uuid_to_text
from ..runtime.errors import ConfigError
from ..runtime.metrics_config import metrics_address
from ..runtime.metrics_listener import MetricsListener
from ..runtime.runtime import Runtime
from ..security.control_identity import name_of_node
from ..security.control_proof import Proofs, open_proofs
from ..security.control_seal import DatagramGuards
from ..security.quotas import MUTATION, Quotas
from ..security.sasl.first_users import FirstUser
from ..storage.directory import LogDirectory
from .api.answers import Answers
from .api.authorizing import Authorizing
from .api.certified_door import CertifiedDoor
from .api.session import Session
from .api.sessions import Sessions
from .clocks import Clocks
from .config import ControllerConfig, listener_of, quorum_of
from .driver import Controller, Events
from .handovers import Handovers
from .liveness import Liveness
from .metadata.scram import first_credentials
from .metrics import ControllerMetrics
from .quorum.lost_log import open_metadata_log
from .quorum.peers import Peering
from .quorum.raft import RaftQuorum
from .token_expiry import TokenExpiry
from .upkeep import Upkeep

START_WITHIN_MS: Final = 60_000
BIND_ATTEMPTS: Final = 10
"""The number of attempts, with port 0, to find a port that is free for TCP and UDP."""
UNCHECKED: Final = (
    "there are ACLs, but no authorizer.class.name on this controller: whether a client may ask for"
    " what a broker forwards is checked by that broker alone"
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ground:
    """The parts that are made first and that all other parts of a controller use."""

    runtime: Runtime
    config: ControllerConfig
    proofs: Proofs
    """The proof that this node shows to others, and those that it accepts from them."""


class ControllerServer:
    """Everything that one controller process runs."""

    def __init__(
        self,
        ground: Ground,
        directory: LogDirectory,
        *,
        quorum: RaftQuorum,
        on_failed: Callable[[str], None],
    ) -> None:
        """Called by `start` alone, which also opens what this object runs."""
        self.ground = ground
        self.runtime = runtime = ground.runtime
        self.config = config = ground.config
        self.guards = DatagramGuards(is_required=ground.proofs.are_required)
        events = Events(
            on_failed=on_failed,
            on_active=self._on_active,
            on_inactive=self._on_inactive,
            on_cluster_id=self._on_cluster_id,
            on_replayed=self._on_replayed,
        )
        self.controller = Controller(runtime, quorum, config, directory.cluster_id, events)
        self.liveness = Liveness(
            runtime,
            self.controller.leases,
            admits=self._admits,
            on_expired=self.controller.on_lease_expired,
            endpoint_of=self._endpoint_of,
        )
        self.authorizing: Authorizing | None = None
        """The authorization of forwarded requests; None if brokers alone check them."""
        if config.authorizer.class_name is not None:
            self.authorizing = Authorizing(runtime, config.authorizer)
        self.quotas = Quotas((MUTATION,))
        """The quotas that are enforced here, and what each client has used of its own."""
        self.upkeep = Upkeep(self.controller, config)
        interval_ms = config.delegation_token_expiry_check_interval_ms
        self.token_expiry = TokenExpiry(self.controller, interval_ms)
        self.clocks = Clocks()
        self.handovers = Handovers(self.controller, config.leader_lease_ms)
        self.answers = Answers()
        self.sessions = Sessions(runtime.descriptor_limit())
        self.refusals = Refusals()
        self._handshakes = Handshakes(runtime, self.refusals)
        self.metrics = self._make_metrics()
        self._directory = directory
        self._doors: asyncio.Server | None = None
        self.address: tuple[str, int] = ("", 0)
        """The address of the listener, once it listens."""

    @classmethod
    async def start(
        cls,
        runtime: Runtime,
        config: ControllerConfig,
        on_failed: Callable[[str], None],
        first_users: Sequence[FirstUser] = (),
    ) -> "ControllerServer":
        """Start everything; raise ConfigError or StorageError if that is not possible.

        If this controller makes the cluster, `first_users` can log in by SCRAM from then on.
        """
        own = name_of_node(ROLE_CONTROLLER, config.node_id)
        proofs = open_proofs(runtime, config.control, own)
        directory = await LogDirectory.open(
            runtime, config.directory, node_id=config.node_id, cluster_id=config.cluster_id
        )
        try:
            settings, endpoints = quorum_of(config, directory.directory_id)
            cluster_id = directory.cluster_id
            if cluster_id is None and len(settings.voters) == 1:
                # There is no format step. A sole controller makes the cluster at its first start;
                # of several, the first leader makes it with its first record.
                cluster_id = uuid_to_text(runtime.rng.randbytes(16))
                await directory.join(cluster_id)
            metadata_log = await open_metadata_log(
                runtime,
                directory.files,
                is_alone=len(settings.voters) == 1,
                cluster_id=cluster_id,
                cut_at=config.metadata_log_cut_at,
            )
            quorum = await RaftQuorum.open(
                runtime,
                metadata_log,
                settings,
                cluster_id=cluster_id,
                peering=Peering(endpoints, proofs.shown),
            )
        except BaseException:
            directory.abandon()
            raise
        ground = Ground(runtime, config, proofs)
        server = cls(ground, directory, quorum=quorum, on_failed=on_failed)
        server.controller.founding = first_credentials(first_users, runtime.rng.randbytes)
        try:
            if server.metrics is not None:
                await server.metrics.open()
            await server._open_doors(listener_of(config))
            await server.controller.start()
            if len(settings.voters) == 1:
                await server.controller.wait_until_settled(START_WITHIN_MS)
        except BaseException:
            await server.stop()
            raise
        server.liveness.set_timer()
        return server

    def ready(self) -> Mapping[str, object]:
        """Return the facts that the process reports once brokers can register."""
        listeners = {listener_of(self.config).name: list(self.address)}
        told: dict[str, object] = {"node_id": self.config.node_id, "listeners": listeners}
        return told if self.metrics is None else told | {"metrics": self.metrics.address}

    async def stop(self) -> None:
        """Finish what is pending, hand over, stop taking requests, close the log."""
        await self.controller.hand_over()
        if self.metrics is not None:
            await self.metrics.close()
        if self._doors is not None:
            self._doors.close()
        self._handshakes.close()
        await self.liveness.close()
        self.upkeep.close()
        self.token_expiry.close()
        self.handovers.close()
        for session in list(self.sessions.all):
            session.close()
        await self.controller.stop()
        self._directory.abandon()

    def _make_metrics(self) -> MetricsListener | None:
        address = metrics_address(self.config.metrics_listener)
        if address is None:
            return None
        collectors = (ControllerMetrics(self.controller, self.sessions, self.guards),)
        return MetricsListener(self.runtime, address, collectors, self._why_not_ready)

    def _why_not_ready(self) -> str | None:
        """Return why no broker can be served through this controller; None if it can."""
        if self.controller.quorum.leader_id >= 0:
            return None
        return "no controller leads, as far as this one knows"

    def _on_active(self) -> None:
        image = self.controller.cluster.image
        self.quotas.on_metadata(Delta(is_snapshot=True), image)
        if self.authorizing is not None:
            self.authorizing.on_metadata(Delta(is_snapshot=True), image)
        elif image.acls:
            log.warning(UNCHECKED)
        self.handovers.on_active()
        self.upkeep.on_active()
        self.token_expiry.on_active()
        self.liveness.set_timer()

    def _on_replayed(self, records: Sequence[MetadataRecord], delta: Delta) -> None:
        self.quotas.on_metadata(delta, self.controller.cluster.image)
        if self.authorizing is not None:
            self.authorizing.on_metadata(delta, self.controller.cluster.image)
        self.handovers.on_replayed(records)
        self.upkeep.on_replayed(records)
        self.token_expiry.on_replayed(records)

    def _on_inactive(self) -> None:
        """Forget which brokers are connected: only the active controller's knowledge counts."""
        for session in self.sessions.all:
            session.broker = None

    def _on_cluster_id(self, cluster_id: str) -> None:
        self.runtime.spawn(self._directory.join(cluster_id), "cluster id")
        self.controller.quorum.on_cluster_id(cluster_id)

    async def _open_doors(self, listener: Endpoint) -> None:
        """Listen on TCP and, under the same port number, on UDP.

        Raise ConfigError if an address is not available.
        """
        loop = asyncio.get_running_loop()
        shown = f"{listener.name}://{listener.host}:{listener.port}"
        # An empty host stands for every IPv4 address of the machine.
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

    def _on_connected(self) -> asyncio.BaseProtocol:
        proofs = self.ground.proofs
        if proofs.tls is None:
            return self.open_session().stream
        door = CertifiedDoor(self, proofs.tls)
        return self._handshakes.begin(door, None if proofs.keys is None else self._plain)

    def _plain(self) -> asyncio.BufferedProtocol:
        return self.open_session().stream

    def open_session(self, proved: str | None = None) -> Session:
        """Begin a session; `proved` is the name that the peer's certificate proves, if any."""
        session = Session(self, proved)
        self.sessions.add(session)
        return session

    def _admits(self, datagram: Datagram) -> bool:
        is_ours = datagram.heartbeat.cluster_id == self.controller.cluster_id
        return is_ours and self.guards.admits(datagram)

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        broker = self.controller.committed.brokers.get(broker_id)
        return broker.endpoints[0] if broker is not None and broker.endpoints else None
