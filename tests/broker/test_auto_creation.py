"""Topics made on demand: how many names may wait, and what becomes of those that are refused."""

import asyncio

import pytest

from minikafka.broker.control.auto_creation import PENDING_MAX, RETRY_MS, AutoCreation
from minikafka.protocol.codec import decode, encode_bytes
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.principal import ANONYMOUS, Origin, user

from .edge_support import settle


class Controller:
    """Takes what it is asked for, or is away."""

    def __init__(self) -> None:
        self.is_away = False
        self.asked: list[list[str]] = []
        self.origins: list[Origin | None] = []

    async def forward(
        self, key: int, version: int, body: bytes, origin: Origin | None = None
    ) -> bytes:
        self.origins.append(origin)
        self.asked.append([each.name for each in decode(CreateTopicsRequest, version, body).topics])
        if self.is_away:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        return encode_bytes(CreateTopicsResponse(topics=[]), version)


class Lab:
    def __init__(self) -> None:
        self.now_ms = 0
        runtime = SystemRuntime()
        runtime.monotonic_ms = lambda: self.now_ms  # type: ignore[method-assign]
        self.controller = Controller()
        inside = CreatableTopic(name="inside", num_partitions=50, replication_factor=3)
        self.creation = AutoCreation(
            runtime,
            self.controller,  # type: ignore[arg-type]
            {},
            {"inside": lambda: inside},
        )


@pytest.fixture
async def lab() -> Lab:
    """Whose every place is taken by names that were refused."""
    made = Lab()
    made.controller.is_away = True
    made.creation.create([f"t{n}" for n in range(PENDING_MAX + 100)])
    await settle()
    assert [len(names) for names in made.controller.asked] == [PENDING_MAX]
    made.controller.is_away = False
    made.controller.asked = []
    return made


async def test_refused_names_make_room_after_a_while(lab: Lab) -> None:
    lab.creation.create(["one more"])
    await asyncio.sleep(0)
    assert lab.controller.asked == []
    lab.now_ms += RETRY_MS
    lab.creation.create(["one more", "t0"])
    await settle()
    assert lab.controller.asked == [["one more", "t0"]]


async def test_what_coordinators_need_is_never_crowded_out(lab: Lab) -> None:
    lab.creation.create(["one more", "inside"])
    await settle()
    assert lab.controller.asked == [["inside"]]


async def test_each_topic_is_asked_for_in_the_name_of_the_client_that_wanted_it_first() -> None:
    lab, alice = Lab(), Origin(user("alice"), "10.0.0.1", "CLIENTS")
    bob = alice._replace(principal=ANONYMOUS)
    lab.creation.create(["a", "b"], alice)
    lab.creation.create(["b", "c"], bob)
    lab.creation.create(["inside"])
    lab.creation.create(["d"], alice)
    await settle()
    assert lab.controller.asked == [["a", "b", "d"], ["c"], ["inside"]]
    assert lab.controller.origins == [alice, bob, None]
