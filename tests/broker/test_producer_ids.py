"""The stock of producer ids: a block in use, a spare one, and bounded patience."""

import asyncio

import pytest

from minikafka.broker.coordinator import producer_ids
from minikafka.broker.coordinator.producer_ids import ProducerIds
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.principal import Origin

from .edge_support import settle


class FakeController:
    """Blocks of three ids, given when the gate is open."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()

    async def allocate_producer_ids(self) -> tuple[int, int]:
        self.asked += 1
        first = 100 * self.asked
        await self.gate.wait()
        if self.is_away:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller could be reached")
        return first, 3

    async def forward(
        self, api_key: int, api_version: int, body: bytes, origin: Origin | None = None
    ) -> bytes:
        raise NotImplementedError


@pytest.fixture
def controller() -> FakeController:
    return FakeController()


@pytest.fixture
def stock(controller: FakeController) -> ProducerIds:
    return ProducerIds(SystemRuntime("test"), controller)


async def test_an_idle_broker_asks_for_one_block_and_a_used_one_for_a_spare(
    stock: ProducerIds, controller: FakeController
) -> None:
    stock.stock_up()
    await settle()
    assert controller.asked == 1
    assert stock.take() == 100
    await settle()
    assert controller.asked == 2
    assert [stock.take(), stock.take()] == [101, 102]
    await settle()
    assert controller.asked == 2
    assert stock.take() == 200
    await settle()
    assert controller.asked == 3


async def test_ids_go_on_while_the_controller_is_away(
    stock: ProducerIds, controller: FakeController
) -> None:
    stock.stock_up()
    await settle()
    assert stock.take() == 100
    await settle()
    controller.is_away = True
    given = [stock.take() for _ in range(5)]
    assert given == [101, 102, 200, 201, 202]
    assert stock.take() is None
    answers: list[tuple[ErrorCode, int]] = []
    stock.wait(lambda error, number: answers.append((error, number)))
    await settle()
    assert answers == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)]
    controller.is_away = False
    stock.wait(lambda error, number: answers.append((error, number)))
    await settle()
    assert answers[1] == (ErrorCode.NONE, 100 * controller.asked)


async def test_many_who_wait_are_served_by_as_many_blocks_as_it_takes(
    stock: ProducerIds, controller: FakeController
) -> None:
    answers: list[int] = []
    for _ in range(7):
        assert stock.take() is None
        stock.wait(lambda error, number: answers.append(number))
    await settle()
    assert answers == [100, 101, 102, 200, 201, 202, 300]
    assert controller.asked == 3


async def test_nobody_waits_longer_than_the_bound_and_a_late_block_is_kept(
    stock: ProducerIds, controller: FakeController, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_ids, "ANSWER_WITHIN_MS", 1)
    controller.gate.clear()
    told = asyncio.Event()
    answers: list[ErrorCode] = []

    def taken(error: ErrorCode, number: int) -> None:
        answers.append(error)
        told.set()

    stock.wait(taken)
    await told.wait()
    assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    controller.gate.set()
    await settle()
    assert controller.asked == 1
    assert stock.take() == 100


async def test_closing_leaves_no_question_behind(
    stock: ProducerIds, controller: FakeController
) -> None:
    await stock.close()
    controller.gate.clear()
    stock.stock_up()
    await settle()
    await stock.close()
    assert len(asyncio.all_tasks()) == 1
