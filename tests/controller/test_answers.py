"""What is remembered of answers to forwarded requests, and for how long."""

import asyncio

import pytest

from minikafka.controller.api import answers
from minikafka.controller.api.answers import Answers
from minikafka.protocol.control.messages import ForwardedAnswer
from minikafka.protocol.errors import ErrorCode


async def given(kept: Answers, key: bytes, answer: ForwardedAnswer) -> None:
    future: asyncio.Future[ForwardedAnswer] = asyncio.get_running_loop().create_future()
    kept.remember(key, future)
    future.set_result(answer)
    await asyncio.sleep(0)


async def test_a_final_answer_is_kept_and_not_now_is_not() -> None:
    kept = Answers()
    final = ForwardedAnswer(ErrorCode.NONE, body=b"x")
    await given(kept, b"a", final)
    await given(kept, b"b", ForwardedAnswer(ErrorCode.NOT_CONTROLLER))
    await given(kept, b"c", ForwardedAnswer(ErrorCode.INVALID_REQUEST))
    await given(kept, b"", final)
    first = kept.get(b"a")
    assert first is not None
    assert first.result() == final
    assert kept.get(b"b") is None
    assert kept.get(b"c") is not None
    assert kept.get(b"") is None


async def test_one_under_way_is_shared_and_a_cancelled_one_forgotten() -> None:
    kept = Answers()
    future: asyncio.Future[ForwardedAnswer] = asyncio.get_running_loop().create_future()
    kept.remember(b"a", future)
    assert kept.get(b"a") is future
    future.cancel()
    await asyncio.sleep(0)
    assert kept.get(b"a") is None


async def test_memory_is_bounded_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "KEPT_COUNT_MAX", 10)
    monkeypatch.setattr(answers, "KEPT_BYTES_MAX", 25)
    kept = Answers()
    for number in range(20):
        await given(kept, bytes([number + 1]), ForwardedAnswer(ErrorCode.NONE))
    assert [kept.get(bytes([n + 1])) is None for n in range(20)] == [True] * 10 + [False] * 10
    for number in range(20):
        await given(kept, bytes([100 + number]), ForwardedAnswer(ErrorCode.NONE, body=b"12345"))
    assert [kept.get(bytes([100 + n])) is None for n in range(20)] == [True] * 15 + [False] * 5
