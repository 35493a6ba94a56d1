"""New connections that come too fast: who waits, who is closed, and that nobody else notices."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from minikafka.broker.admission.entrance import HELD_MAX, TURN_AWAY_MS, Entrance
from minikafka.broker.admission.limits import bounds_of
from minikafka.broker.admission.rates import BURST_MS, HOSTS_MAX, Pace, Rates, rates_of_hosts
from minikafka.broker.metrics.connections import ConnectionMetrics
from minikafka.broker.net.arrival import Arriving
from minikafka.broker.net.connection import Connection
from minikafka.broker.net.greeting import Greetings
from minikafka.broker.publishing import bound_connections
from minikafka.protocol.codec import frame_request
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.records import BROKER
from minikafka.protocol.messages.api_versions import ApiVersionsRequest
from minikafka.security.listener import Listener, SecurityProtocol
from minikafka.security.tls import ListenerTls

from ..security.certificates import make
from ..support.scrape import Scrape
from .channel_support import until
from .edge_support import FakeBroker
from .test_greeting import Door, ask, leave

BURST_S = BURST_MS // 1000


class Time:
    """A clock that a test turns, with what is due at its times."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now_ms + delay_ms, self._count, call))

    def go_on(self, delay_ms: int) -> None:
        end_ms = self.now_ms + delay_ms
        while self._due and self._due[0][0] <= end_ms:
            self.now_ms, _, call = heapq.heappop(self._due)
            call()
        self.now_ms = end_ms


class FakeArrival:
    def __init__(self, host: str = "10.0.0.1", listener: str = "OUTSIDE") -> None:
        self.host = host
        self.listener = Listener(listener)
        self.is_served = False
        self.refused: str | None = None

    def serve(self) -> None:
        self.is_served = True

    def turn_away(self, why: str) -> None:
        self.refused = why


class Hall:
    """An entrance with its clock."""

    def __init__(self, protected: str | None = None, **settings: str) -> None:
        self.time = Time()
        self.entrance = Entrance(Rates(protected), lambda: self.time.now_ms, self.time.later)
        self.bound(**settings)

    def bound(self, **settings: str) -> None:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self.entrance.bound(bounds_of(given, ["OUTSIDE", "INSIDE"]))

    def come(self, count: int, *where: str) -> list[FakeArrival]:
        arrivals = [FakeArrival(*where) for _ in range(count)]
        for arrival in arrivals:
            self.entrance.arrive(arrival)
        return arrivals


def served(arrivals: list[FakeArrival]) -> int:
    return sum(arrival.is_served for arrival in arrivals)


def test_on_average_as_many_come_as_the_rate_says_and_after_a_silence_a_burst() -> None:
    pace, now_ms = Pace(4), 5_000_000

    def come(seconds: int) -> int:
        nonlocal now_ms
        count = 0
        end_ms = now_ms + seconds * 1000
        while now_ms < end_ms:
            if not pace.late_ms(now_ms):
                pace.take(now_ms)
                count += 1
            now_ms += 10
        return count

    assert come(100) == 4 * (BURST_S + 100) - 1
    now_ms += 3_600_000
    assert come(1) == 4 * (BURST_S + 1) - 1
    rare = Pace(0.05)
    rare.take(now_ms)
    assert rare.late_ms(now_ms) == 20_000


def test_who_comes_too_fast_waits_and_is_served_in_order() -> None:
    hall = Hall(max_connection_creation_rate="2")
    assert not hall.entrance.is_wide
    arrivals = hall.come(2 * BURST_S + 4)
    assert served(arrivals) == 2 * BURST_S
    for count in (1, 2, 3, 4):
        hall.time.go_on(500)
        assert served(arrivals) == 2 * BURST_S + count
        assert arrivals[2 * BURST_S + count - 1].is_served
    assert hall.entrance.held == 0


def test_one_that_left_while_it_waited_is_not_served() -> None:
    hall = Hall(max_connection_creation_rate="1")
    arrivals = hall.come(BURST_S + 2)
    hall.entrance.forget(arrivals[BURST_S])
    hall.time.go_on(1000)
    assert [each.is_served for each in arrivals[BURST_S:]] == [False, True]


def test_a_listener_has_a_pace_of_its_own_and_that_of_brokers_no_other() -> None:
    inside = "listener.name.inside.max.connection.creation.rate"
    hall = Hall("INSIDE", max_connection_creation_rate="1", **{inside: "3"})
    assert served(hall.come(BURST_S + 5)) == BURST_S
    assert served(hall.come(3 * BURST_S + 5, "10.0.0.2", "INSIDE")) == 3 * BURST_S
    shared = Hall(None, max_connection_creation_rate="1", **{inside: "3"})
    assert served(shared.come(BURST_S + 5)) == BURST_S
    assert served(shared.come(1, "10.0.0.2", "INSIDE")) == 0, "the broker's pace holds for both"


def test_beyond_those_that_may_wait_connections_are_closed_at_once() -> None:
    hall = Hall(max_connection_creation_rate="1")
    arrivals = hall.come(BURST_S + HELD_MAX + 3)
    assert hall.entrance.held == HELD_MAX
    refused = [each.refused for each in arrivals if each.refused is not None]
    assert refused == [f"{HELD_MAX} others wait for max.connection.creation.rate"] * 3


def test_a_rate_that_changes_holds_at_once_for_those_that_wait() -> None:
    hall = Hall(max_connection_creation_rate="1")
    arrivals = hall.come(BURST_S + 50)
    hall.bound(max_connection_creation_rate="100")
    assert served(arrivals) == len(arrivals)
    hall.bound()
    assert hall.entrance.is_wide
    assert served(hall.come(5_000)) == 5_000


def test_those_that_wait_are_closed_when_the_broker_stops() -> None:
    hall = Hall(max_connection_creation_rate="1")
    hall.entrance.bound_hosts(None, {"10.0.0.6": 1})
    arrivals = hall.come(BURST_S + 2) + hall.come(BURST_S + 1, "10.0.0.6")
    hall.entrance.close()
    assert hall.entrance.held == 0
    assert sum(each.refused == "the broker stops" for each in arrivals) == 2 + BURST_S + 1
    hall.time.go_on(60_000)
    assert served(arrivals) == BURST_S


def test_s_47_an_address_that_comes_too_fast_is_closed_and_no_other_notices() -> None:
    hall = Hall()
    hall.entrance.bound_hosts(None, {"10.0.0.6": 5})
    fast: list[FakeArrival] = []
    slow: list[FakeArrival] = []
    for _ in range(60 * 50):
        fast += hall.come(1, "10.0.0.6")
        slow += hall.come(1, "10.0.0.7")
        hall.time.go_on(20)
    assert served(fast) == 5 * (60 + BURST_S) - 1, "what is refused does not count"
    assert served(slow) == len(slow)
    assert hall.entrance.held <= 50, "none waits longer than a second"
    hall.time.go_on(TURN_AWAY_MS)
    assert all(each.is_served or "connection_creation_rate" in str(each.refused) for each in fast)


def test_quotas_of_addresses_are_those_of_the_metadata() -> None:
    image = MetadataImage()
    for name, rate in ((None, 3.0), ("10.0.0.6", 5.0), ("10.0.0.8", 7.0)):
        image.apply(r.ClientQuotaRecord({"ip": name}, "connection_creation_rate", rate), 1)
    image.apply(r.ClientQuotaRecord({"user": "x"}, "producer_byte_rate", 9.0), 2)
    assert rates_of_hosts(image.quotas) == (3.0, {"10.0.0.6": 5.0, "10.0.0.8": 7.0})
    assert rates_of_hosts({}) == (None, {})


def test_each_address_has_the_default_and_few_are_remembered() -> None:
    rates = Rates()
    rates.bound_hosts(1, {"10.0.0.6": 2}, 0)
    for number in range(HOSTS_MAX + 10):
        assert rates.late_from_ms(str(number), 0) == 0
    assert len(rates._hosts) == HOSTS_MAX
    for _ in range(2 * BURST_S):
        assert rates.late_from_ms("10.0.0.6", 0) == 0
    assert rates.late_from_ms("10.0.0.6", 0) > 0
    rates.bound_hosts(None, {}, 0)
    assert rates.are_off
    assert rates._hosts == {}


# Over sockets.


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """A listener with TLS and a port without, both behind one entrance that nobody may pass."""
    broker = FakeBroker(max_connection_creation_rate="1")
    broker.edge.entrance.rates.take("PLAINTEXT", broker.runtime.monotonic_ms() + BURST_MS)
    listener = Listener("PLAINTEXT", SecurityProtocol.SSL)
    properties = {"ssl.keystore.location": make("broker-1").write(tmp_path / "server.pem")}
    tls = ListenerTls(broker.runtime, properties, listener.name)
    greetings = Greetings(broker.edge, {listener.name: tls})

    def serve() -> asyncio.BaseProtocol:
        return greetings.greet(
            listener, lambda: Connection(broker.edge, listener, broker.apis, None)
        )

    def connect() -> asyncio.BaseProtocol:
        return Arriving(broker.edge, listener, serve)

    server = await asyncio.get_running_loop().create_server(connect, "127.0.0.1", 0)
    async with asyncio.timeout(20):
        yield Door(server.sockets[0].getsockname()[1], broker, tmp_path)
    server.close()
    greetings.close()
    broker.edge.entrance.close()
    broker.edge.doors.close()
    broker.close()
    await asyncio.sleep(0)


def let_in(broker: FakeBroker) -> None:
    record = r.ConfigRecord(BROKER, "", "max.connection.creation.rate", "1000000")
    broker.image.apply(record, 70)
    bound_connections(broker.edge, broker.image)


async def held(broker: FakeBroker, count: int) -> None:
    await until(lambda: broker.edge.entrance.held == count)
    name = "minikafka_connections_waiting"
    assert Scrape([ConnectionMetrics(broker.edge)])(name) == count


LOOPS = pytest.mark.parametrize(
    "loop", ["uvloop", pytest.param("asyncio", marks=pytest.mark.plain_loop)]
)


@LOOPS
async def test_a_connection_that_waited_is_served_with_the_bytes_it_has_sent(
    door: Door, loop: str
) -> None:
    broker, listener = door.broker, Listener("PLAINTEXT")
    server = await asyncio.get_running_loop().create_server(
        lambda: Arriving(
            broker.edge, listener, lambda: Connection(broker.edge, listener, broker.apis, None)
        ),
        "127.0.0.1",
        0,
    )
    port = server.sockets[0].getsockname()[1]
    clients = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    request = ApiVersionsRequest(client_software_name="x" * 100, client_software_version="1")
    frame = b"".join(frame_request(request, 3, 7, "test"))
    reader, writer = clients[0]
    writer.write(frame * 100)  # more than is read while it waits
    await held(broker, 2)
    let_in(broker)
    for _ in range(100):
        await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
    assert (await ask(*clients[1])).api_keys
    for _, each in clients:
        await leave(each)
    server.close()


@pytest.mark.moves("minikafka_connections_waiting")
@LOOPS
async def test_a_handshake_that_waited_succeeds(door: Door, loop: str) -> None:
    connecting = asyncio.ensure_future(door.connect())
    await held(door.broker, 1)
    _, gone = await door.plain()
    await held(door.broker, 2)
    await leave(gone)
    await held(door.broker, 1)
    assert not connecting.done()
    let_in(door.broker)
    reader, writer = await connecting
    assert (await ask(reader, writer)).api_keys
    await leave(writer)
    reader, writer = await door.connect()
    assert (await ask(reader, writer)).api_keys, "and one that need not wait"
    await leave(writer)
