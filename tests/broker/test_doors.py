"""Who may be connected, and how often it is said that somebody may not."""

import logging

import pytest

from minikafka.broker.admission.doors import Doors, share_descriptors
from minikafka.broker.admission.limits import Bounds
from minikafka.client.net.refusals import SAY_AGAIN_MS, Refusals
from minikafka.security.listener import Listener

PLACES = 10_000


class FakeGuest:
    is_replica = False

    def __init__(
        self,
        host: str = "10.0.0.1",
        listener: str = "OUTSIDE",
        *,
        is_silent: bool = True,
        wall_ms: int = 0,
    ) -> None:
        self.host = host
        self.listener = Listener(listener)
        self.is_silent = is_silent
        self.wall_ms = wall_ms
        self.is_cut = self.is_closed = False

    def cut(self, why: str) -> None:
        self.is_cut = True

    def close(self) -> None:
        self.is_closed = True


def bounds(connections: int = 100, per_host: int = 1000, **more: dict[str, int]) -> Bounds:
    given = {"hosts": {}, "listeners": {}, "listener_rates": {}, **more}
    return Bounds(connections=connections, per_host=per_host, rate=1, **given)


def make(connections_max: int = 100, per_host_max: int = 1000) -> Doors:
    return Doors(PLACES, bounds(connections_max, per_host_max))


def test_a_newcomer_takes_the_place_of_one_that_is_silent() -> None:
    doors = make(3)
    busy, silent, other = FakeGuest(is_silent=False), FakeGuest(), FakeGuest()
    for guest in (busy, silent, other):
        assert doors.admit(guest) is None
    assert doors.admit(FakeGuest(is_silent=False)) is None
    assert [guest.is_cut for guest in (busy, silent, other)] == [False, True, False]
    assert len(doors.connections) == 3


def test_where_nobody_is_silent_the_newcomer_is_refused() -> None:
    doors = make(2)
    guests = [FakeGuest(is_silent=False) for _ in range(2)]
    for guest in guests:
        doors.admit(guest)
    why = doors.admit(FakeGuest())
    assert why is not None
    assert "no place" in why
    doors.release(guests[0])
    assert doors.admit(FakeGuest()) is None


def test_silent_peers_do_not_keep_out_who_asks() -> None:
    doors = make(500)
    for _ in range(400):
        doors.admit(FakeGuest(is_silent=False))
    for _ in range(5000):
        doors.admit(FakeGuest())
    healthy = FakeGuest(is_silent=False)
    refused = sum(doors.admit(FakeGuest(is_silent=False)) is not None for _ in range(8))
    assert refused < 8, "a few tries, and the silent ones were found"
    assert doors.admit(healthy) is None
    assert len(doors.connections) == 500
    for guest in doors.connections:
        doors.release(guest)
    assert doors._hosts == {}


def test_one_address_has_only_so_many() -> None:
    doors = make(per_host_max=2)
    first = FakeGuest()
    assert doors.admit(first) is None
    assert doors.admit(FakeGuest()) is None
    why = doors.admit(FakeGuest())
    assert why is not None
    assert "max.connections.per.ip" in why
    assert doors.admit(FakeGuest("10.0.0.2")) is None
    doors.release(first)
    doors.release(first)
    assert doors.admit(FakeGuest()) is None


def test_an_address_may_have_a_number_of_its_own() -> None:
    doors = Doors(PLACES, bounds(per_host=1, hosts={"10.0.0.7": 2, "10.0.0.8": 0}))
    admitted = {
        host: [doors.admit(FakeGuest(host)) is None for _ in range(3)]
        for host in ("10.0.0.7", "10.0.0.8", "10.0.0.9")
    }
    assert admitted == {
        "10.0.0.7": [True, True, False],
        "10.0.0.8": [False, False, False],
        "10.0.0.9": [True, False, False],
    }


def test_a_listener_may_have_a_number_of_its_own() -> None:
    doors = Doors(PLACES, bounds(listeners={"OUTSIDE": 1, "INSIDE": 100}))
    assert doors.admit(FakeGuest(is_silent=False)) is None
    assert doors.admit(FakeGuest(listener="INSIDE")) is None
    why = doors.admit(FakeGuest())
    assert why is not None
    assert "1 clients are connected to OUTSIDE" in why
    assert doors.admit(FakeGuest(listener="INSIDE")) is None


def test_s_48_brokers_still_connect_where_all_places_are_taken() -> None:
    doors = Doors(3, bounds(connections=3, listeners={"INSIDE": 3}), protected="INSIDE")
    clients = [FakeGuest(is_silent=False, wall_ms=wall_ms) for wall_ms in (30, 10, 20)]
    brokers = [FakeGuest(listener="INSIDE", is_silent=False) for _ in range(3)]
    for guest in (*clients, *brokers[:2]):
        assert doors.admit(guest) is None
    assert [guest.is_cut for guest in clients] == [False, True, True]
    assert doors.admit(FakeGuest(is_silent=False)) is not None, "clients do not displace brokers"
    assert doors.admit(brokers[2]) is None
    assert clients[0].is_cut
    assert len(doors.connections) == 3, "there are descriptors for no more"
    assert doors.admit(FakeGuest(listener="INSIDE", is_silent=False)) is not None
    assert not any(guest.is_cut for guest in brokers)


def test_when_a_number_falls_those_used_the_longest_ago_are_closed() -> None:
    doors = Doors(PLACES, bounds(), protected="INSIDE")
    clients = [FakeGuest(wall_ms=wall_ms) for wall_ms in (50, 0, 40, 10)]
    follower = FakeGuest(wall_ms=1)
    follower.is_replica = True
    broker = FakeGuest(listener="INSIDE")
    for guest in (*clients, follower, broker):
        assert doors.admit(guest) is None
    doors.bound(bounds(connections=4))
    assert [guest.is_cut for guest in clients] == [False, True, False, True]
    doors.bound(bounds(listeners={"OUTSIDE": 1}))
    assert all(guest.is_cut for guest in clients)
    assert not follower.is_cut
    assert not broker.is_cut


@pytest.mark.parametrize("limit", [1, 20, 300, 1024, 4096, 1 << 20])
@pytest.mark.parametrize("directories", [1, 3])
def test_files_and_clients_together_leave_some_descriptors(limit: int, directories: int) -> None:
    budget = share_descriptors(limit, directories)
    assert budget.files >= 1
    assert budget.connections >= 1
    if limit >= 20:
        assert limit - budget.files * directories - budget.connections >= min(256, limit // 4)


def test_of_one_kind_the_first_is_said_and_then_a_count_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Refusals()
    with caplog.at_level(logging.WARNING):
        for number in range(10_000):
            refusals.close(f"10.0.0.9:{number}", f"frame of {number} bytes, the limit is 5", 0)
        refusals.close("10.0.0.9:1", "idle", 1)
        refusals.close("10.0.0.9:2", "frame of -7 bytes, the limit is 5", SAY_AGAIN_MS)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        "connection from 10.0.0.9:0 closed: frame of 0 bytes, the limit is 5",
        "connection from 10.0.0.9:1 closed: idle",
        "connection from 10.0.0.9:2 closed: frame of -7 bytes, the limit is 5"
        " (and 9999 like it since it was last said)",
    ]
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        for number in range(10_000):
            refusals.seldom(0, "client %d is refused: %s", number, "no")
        refusals.seldom(SAY_AGAIN_MS, "client %d is refused: %s", 7, "100 %")
    assert caplog.messages == [
        "client 0 is refused: no",
        "client 7 is refused: 100 % (and 9999 like it since it was last said)",
    ]
