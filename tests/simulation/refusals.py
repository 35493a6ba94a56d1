"""A client that sends bad requests and checks that each is answered with the expected error.

It sends requests to the brokers as another client library would. A story is a sequence of such
requests. Errors that faults explain (no connection, another leader) are ignored. During faults a
wrong answer is a violation only if the same story ends wrong three times in a row. After the faults
every story runs once more, and any wrong answer is a violation.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from minikafka.aio import Admin
from minikafka.client.net.connection import ConnectionOptions, KafkaConnection
from minikafka.client.net.control import ControlConnection
from minikafka.protocol.control import messages as m
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.runtime.errors import MinikafkaError
from minikafka.security.control_keys import ControlKeys

from .cluster import BROKER_PORT, CONTROLLER_PORT, KEY_FILE, Cluster
from .coverage import Coverage
from .loop import Process
from .shape import Shape, TopicShape
from .workload import new_topic
from .world import SimRuntime, World

TOPIC = "refused.topic"
"""The topic of the bad requests, which no other client uses."""
TRIES = 3
SAYS_NOTHING = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.BROKER_NOT_AVAILABLE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""Errors that say nothing of the request, only of the node that was asked, and when."""
Due = ErrorCode | tuple[ErrorCode, ...]
OPTIONS = ConnectionOptions(connect_timeout_ms=2000, request_timeout_ms=3000)


Story = Callable[["Refused"], Awaitable[None]]


class Unsaid(MinikafkaError):
    """A request got an error that faults explain, so the story ends."""


class Wrong(MinikafkaError):
    """A request got another answer than expected."""


class Refused:
    """Runs stories, and checks the answer to each of their requests."""

    stories: "dict[str, Story]"
    transaction_version: int
    image: "Callable[[], MetadataImage | None]"
    """Returns the newest committed metadata."""

    def __init__(self, world: World, cluster: Cluster, shape: Shape, coverage: Coverage) -> None:
        self.world = world
        self.cluster = cluster
        self.coverage = coverage
        self.topic = TopicShape(TOPIC, 1, 3, 2, group=shape.all_group)
        self.rng = world.rng("refusals")
        self.stopping = False
        self._is_sealed = shape.sealed
        self.process: Process | None = None
        self.count = 0
        """The number of stories run so far, from which each story's unique names are made."""
        self._runtime: SimRuntime
        self._open: dict[int, KafkaConnection] = {}
        self._controlled: dict[tuple[int, m.Hello], ControlConnection] = {}
        self._is_there = False

    def start(self) -> None:
        host = self.world.add_host("refused")
        if self._is_sealed:
            host.disk.put(KEY_FILE, self.cluster.key_hosts[0].disk.find(KEY_FILE).cache)
            self.cluster.key_hosts.append(host)
        self.process = self.world.start(host, "refused", self._run)

    @property
    def alive(self) -> bool:
        """True if stories are to go on."""
        return self.process is not None and self.process.alive

    async def _run(self, runtime: SimRuntime) -> None:
        self._runtime = runtime
        names = list(self.stories)
        while not self.stopping:
            await asyncio.sleep(3 * self.rng.random())
            await self._tell(self.rng.choice(names), wrong_most=TRIES, unsaid_most=1)
        for name in names:
            await self._tell(name, wrong_most=1, unsaid_most=TRIES)

    async def _tell(self, name: str, *, wrong_most: int, unsaid_most: int) -> None:
        """Run a story, again if faults end it; `wrong_most` wrong ends are a violation."""
        wrong_count = unsaid_count = 0
        while unsaid_count < unsaid_most:
            self.world.trace.emit("refused", name)
            try:
                await self._once(name)
            except Wrong as wrong:
                wrong_count += 1
                self.world.trace.emit("refused", "wrong", wrong)
                if wrong_count == wrong_most:
                    self.world.violation(f"refusals: {name}: {wrong}")
                    return
            except MinikafkaError as error:
                unsaid_count += 1
                self.world.trace.emit("refused", "unsaid", type(error).__name__, str(error)[:80])
            else:
                self.coverage.note("refusal", name)
                return
            await asyncio.sleep(2 * self.rng.random())

    async def _once(self, name: str) -> None:
        self.count += 1
        try:
            if not self._is_there:
                await self._make_topic()
            await self.stories[name](self)
        finally:
            connections, self._open = self._open, {}
            for connection in connections.values():
                connection.abort()
            controlled, self._controlled = self._controlled, {}
            for each in controlled.values():
                each.abort("the story is over")

    async def _make_topic(self) -> None:
        async with Admin(
            bootstrap_servers=self.cluster.bootstrap,
            runtime=self._runtime,
            default_api_timeout_ms=6000,
            request_timeout_ms=2000,
        ) as admin:
            if TOPIC not in [each.name for each in await admin.list_topics()]:
                await admin.create_topics([new_topic(self.topic)])
        self._is_there = True

    # -- asking -----------------------------------------------------------------------------

    def somebody(self) -> int:
        """Return the id of any broker."""
        return self.rng.choice(list(self.cluster.brokers))

    def fresh(self, kind: str) -> str:
        """Return a name that was not used before."""
        return f"{kind}-{self.count}"

    async def told(self, whom: int, request: Any, version: int | None = None, lane: int = 0) -> Any:
        """Return a broker's answer. Each lane is a connection of its own, so that one may wait."""
        connection = self._open.get(100 * lane + whom)
        if connection is None:
            host = f"broker-{whom}"
            connection = await KafkaConnection.open(self._runtime, host, BROKER_PORT, OPTIONS)
            self._open[100 * lane + whom] = connection
        return await connection.request(request, version=version)

    async def due(
        self, whom: int, request: Any, due: Due, version: int | None = None, lane: int = 0
    ) -> Any:
        """Send a request, and check that the first error of the answer is `due`.

        The request is repeated while the answer is CONCURRENT_TRANSACTIONS.
        """
        wanted = due if isinstance(due, tuple) else (due,)
        for _ in range(20):
            answer = await self.told(whom, request, version, lane)
            found = next((each for each in errors_of(answer) if each), ErrorCode.NONE)
            if found in wanted:
                return answer
            if found is not ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(0.05)
        else:
            raise Unsaid("still under way")
        raise _otherwise(f"broker {whom}", request, found, wanted)

    async def each_due(self, pairs: list[tuple[Any, Due]]) -> None:
        """Do `due` for independent requests, each to any broker, in any order."""
        self.rng.shuffle(pairs)
        for request, due in pairs:
            await self.due(self.somebody(), request, due)

    async def due_of_controller(
        self, whom: int, hello: m.Hello, request: m.Request[Any], due: Due
    ) -> None:
        """Do `due` with a controller, on a connection that began with `hello`."""
        wanted = due if isinstance(due, tuple) else (due,)
        try:
            answer = await (await self._control(whom, hello)).call(request, timeout_ms=3000)
            found = next((each for each in errors_of(answer) if each), ErrorCode.NONE)
        except ApiError as error:
            found = error.code
        if found not in wanted:
            raise _otherwise(f"controller {whom}", request, found, wanted)

    async def _control(self, whom: int, hello: m.Hello) -> ControlConnection:
        connection = self._controlled.get((whom, hello))
        if connection is None or not connection.is_open:
            host = self.cluster.controllers[whom].name
            path = KEY_FILE if self._is_sealed else None
            keys = ControlKeys.open(self._runtime, "psk", path)
            connection = await ControlConnection.open(
                host, CONTROLLER_PORT, hello, timeout_ms=2000, keys=keys
            )
            self._controlled[whom, hello] = connection
        return connection

    def hello(self, node_id: int, role: int) -> m.Hello:
        """Make the Hello of a node that does not know its cluster's id yet."""
        return m.Hello(
            None, m.PROTOCOL_VERSION_MIN, m.PROTOCOL_VERSION_MAX, node_id, role, bytes(16)
        )

    async def active_controller(self) -> int:
        """Return the active controller, as any controller names it."""
        asked = self.rng.choice(list(self.cluster.controllers))
        connection = await self._control(asked, self.hello(0, m.ROLE_TOOL))
        if connection.peer.active_id not in self.cluster.controllers:
            raise Unsaid("no controller is active")
        return connection.peer.active_id

    async def coordinator(self, key: str, kind: int) -> int:
        """Return the coordinator of a key."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = await self.due(self.somebody(), request, ErrorCode.NONE)
        found: int = answer.coordinators[0].node_id
        return found

    async def leader(self) -> tuple[int, int, bytes]:
        """Return the leader of the topic's partition, its epoch, and the topic's id.

        The leader itself must know of the topic: if it began again a moment ago and hears no
        controller, it does not, and others name it all the same.
        """
        topics = [MetadataRequestTopic(name=TOPIC)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer = await self.due(self.somebody(), request, (ErrorCode.NONE, unknown))
        (topic,) = answer.topics
        if topic.error_code or topic.partitions[0].leader_id < 0:
            raise Unsaid("no leader")
        partition = topic.partitions[0]
        answer = await self.due(partition.leader_id, request, (ErrorCode.NONE, unknown))
        if answer.topics[0].error_code:
            raise Unsaid("the leader does not know yet")
        return partition.leader_id, partition.leader_epoch, topic.topic_id


def _otherwise(
    who: str, request: Any, found: ErrorCode, wanted: tuple[ErrorCode, ...]
) -> MinikafkaError:
    if found in SAYS_NOTHING:
        return Unsaid(found.name)
    names = " or ".join(each.name for each in wanted)
    return Wrong(f"{request} of {who} is answered {found.name}, due is {names}")


def errors_of(answer: Any) -> Iterator[ErrorCode]:
    """Yield every error code in an answer, the outer ones first."""
    below: list[Any] = []
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.name == "error" or field.name.endswith("error_code"):
            yield ErrorCode(value)
        elif isinstance(value, list | tuple) and value and dataclasses.is_dataclass(value[0]):
            below += value
    for each in below:
        yield from errors_of(each)
