import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minikafka.protocol.records.record_batch import (
    Codec,
    build,
    read_header,
    rewrite_as_log_append_time,
)
from minikafka.storage.log import Log
from minikafka.storage.lookup import OPENED_AT_ONCE
from tests.storage.support import TestRuntime, batch, topic
from tests.support.bombs import Expanded, many_small, one_large


@pytest.mark.parametrize("seed", range(4))
async def test_the_first_record_at_or_after_a_time(
    runtime: TestRuntime, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    config = topic(segment_bytes=2000, index_interval_bytes=rng.choice([0, 200, 5000]))
    log = await Log.open(runtime, str(tmp_path / "t-0"), config)
    records: list[tuple[int, int]] = []
    for _ in range(60):
        start = log.log_end_offset
        times = [rng.randrange(1000) for _ in range(rng.randint(1, 6))]
        log.append([batch(start, count=len(times), timestamp=times, epoch=start // 50)])
        records += [(at, start + n) for n, at in enumerate(times)]
    for is_reopened in (False, True):
        if is_reopened:
            await log.close()
            log = await Log.open(runtime, str(tmp_path / "t-0"), config, clean=True)
        for start in (0, log.log_end_offset // 2):
            log.advance_log_start(start)
            alive = [record for record in records if record[1] >= start]
            for wanted in range(-1, 1001, 37):
                found = await log.reader.offset_for_timestamp(wanted)
                expected = next((record for record in alive if record[0] >= wanted), None)
                assert (found and found[:2]) == expected
            newest = await log.reader.max_timestamp()
            assert newest is not None
            greatest = max(alive)[0]
            assert newest[:2] == next(record for record in alive if record[0] == greatest)
        log.log_start_offset = 0
    log.abandon()


async def test_an_empty_log_has_no_answer(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic())
    assert await log.reader.offset_for_timestamp(0) is None
    assert await log.reader.max_timestamp() is None
    log.append([batch(0, timestamp=-1)])
    assert await log.reader.max_timestamp() is None
    log.abandon()


@pytest.mark.parametrize("codec", list(Codec))
async def test_a_compressed_batch_is_opened(
    runtime: TestRuntime, tmp_path: Path, codec: Codec
) -> None:
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic())
    built = build([(at, None, b"v" * 50) for at in (10, 30, 20)], compression=codec)
    log.append([(read_header(built), built)])
    found = await log.reader.offset_for_timestamp(15)
    assert found is not None
    assert (found.timestamp, found.offset) == (30, 1)
    log.abandon()


async def test_under_log_append_time_every_record_has_the_brokers_time(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic())
    built = build([(at, None, b"v") for at in (10, 30, 20)])
    rewrite_as_log_append_time(built, 0, 77)
    log.append([(read_header(built), built)])
    found = await log.reader.offset_for_timestamp(40)
    assert found is not None
    assert (found.timestamp, found.offset) == (77, 0)
    log.abandon()


@pytest.mark.parametrize("bomb", [one_large(50), many_small(50, 300_000)])
async def test_m_04_a_batch_that_expands_far_is_searched_by_a_worker(
    runtime: TestRuntime, tmp_path: Path, bomb: bytearray, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[str] = []

    async def offload(job: Callable[..., Any], *args: Any) -> Any:
        jobs.append(job.__name__)
        assert expanded.largest <= OPENED_AT_ONCE
        found = job(*args)
        expanded.sizes.clear()  # The worker's.
        return found

    monkeypatch.setattr(runtime, "offload", offload)
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic())
    log.append([(read_header(bomb), bomb)])
    expanded = Expanded(monkeypatch)
    for found in (await log.reader.offset_for_timestamp(1), await log.reader.max_timestamp()):
        assert found is not None
        assert found[:2] == (50, 0)
    assert jobs == ["find", "find"]
    log.abandon()


async def test_m_04_no_record_is_built_to_find_one(
    runtime: TestRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic())
    log.append([batch(0, count=1000, timestamp=range(1000))])

    def built(*_: Any) -> Any:
        raise AssertionError("a record is built")

    monkeypatch.setattr("minikafka.protocol.records.records.decode", built)
    found = await log.reader.offset_for_timestamp(500)
    assert found is not None
    assert (found.timestamp, found.offset) == (500, 500)
    log.abandon()
