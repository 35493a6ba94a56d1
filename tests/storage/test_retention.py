from pathlib import Path

from minikafka.storage.log import Log
from tests.storage.support import TestRuntime, fill, offsets_in, topic

SMALL = {"segment_bytes": 900, "index_interval_bytes": 150}


async def ten_segments(runtime: TestRuntime, path: Path, **settings: object) -> Log:
    """Ten full segments of ten records, record n written at second n."""
    log = await Log.open(runtime, str(path / "t-0"), topic(**SMALL, **settings))
    for n in range(100):
        fill(log, 1, timestamp=n * 1000)
    assert [segment.base_offset for segment in log.segments] == list(range(0, 100, 10))
    return log


async def test_by_time(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await ten_segments(runtime, tmp_path, retention_ms=50_000)
    assert log.delete_old_segments(9_000 + 50_000, 100) == 0
    assert log.delete_old_segments(9_001 + 50_000, 100) == 1
    assert log.log_start_offset == 10
    assert log.delete_old_segments(59_001 + 50_000, 100) == 5
    assert log.log_start_offset == 60
    names = runtime.fs.listdir(str(tmp_path / "t-0"))
    assert [name for name in names if name < f"{60:020d}"] == []
    await log.close()


async def test_the_newest_segment_goes_too_when_all_is_old(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await ten_segments(runtime, tmp_path, retention_ms=50_000)
    assert log.delete_old_segments(10**9, 100) == 10
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (100, 100, 0)
    fill(log, 1)
    await log.close()
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(**SMALL), clean=True)
    assert offsets_in((await log.reader.read_cold(100, max_bytes=99, up_to=101)).data) == [100]
    log.abandon()


async def test_by_size(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await ten_segments(runtime, tmp_path, retention_ms=-1, retention_bytes=3000)
    each = log.segments[0].size
    log.delete_old_segments(10**9, 100)
    assert log.size_bytes == 4 * each
    assert log.delete_old_segments(10**9, 100) == 0
    await log.close()


async def test_by_log_start(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await ten_segments(runtime, tmp_path, cleanup_policy="compact")
    assert log.delete_old_segments(10**12, 100) == 0
    log.advance_log_start(35)
    assert log.delete_old_segments(10**12, 100) == 3
    assert log.log_start_offset == 35
    log.advance_log_start(100)
    assert log.delete_old_segments(10**12, 100) == 6
    assert (log.log_start_offset, len(log.segments)) == (100, 1)
    await log.close()


async def test_records_without_timestamps_are_dated_by_their_segment(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(**SMALL, retention_ms=1000))
    fill(log, 30, timestamp=-1)
    assert log.delete_old_segments(runtime.now_ms + 1000, 30) == 0
    assert log.delete_old_segments(runtime.now_ms + 1001, 30) == 3
    await log.close()


async def test_leader_epochs_follow_the_log_start(runtime: TestRuntime, tmp_path: Path) -> None:
    log = await Log.open(runtime, str(tmp_path / "t-0"), topic(**SMALL, retention_bytes=1800))
    for n in range(60):
        fill(log, 1, epoch=n // 15)
    log.delete_old_segments(0, 60)
    assert log.log_start_offset == 40
    assert list(log.leader_epochs) == [(2, 40), (3, 45)]
    await log.close()


async def test_by_expiry(runtime: TestRuntime, tmp_path: Path) -> None:
    """Segments whose records have all expired go, of a compacted topic too."""
    settings = {"cleanup_policy": "compact", "minikafka_ttl_ms": 50_000}
    log = await ten_segments(runtime, tmp_path, **settings)
    assert log.delete_old_segments(9_000 + 50_000, 100) == 0
    assert log.delete_old_segments(9_001 + 50_000, 100) == 1
    assert log.delete_old_segments(10**9, 45) == 3
    await log.close()


async def test_what_may_say_itself_when_it_expires_is_not_deleted_for_that(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    settings = {"retention_ms": -1, "minikafka_ttl_ms": 1, "minikafka_ttl_enable": "true"}
    log = await ten_segments(runtime, tmp_path, **settings)
    assert log.delete_old_segments(10**9, 100) == 0
    await log.close()


async def test_of_a_topic_with_rules_its_own_retention_counts_behind_what_is_forwarded(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    rules = '[{"else": true, "to": ["a"]}]'
    settings = {"minikafka_route_rules": rules, "minikafka_delay_keep_ms": 0}
    log = await ten_segments(runtime, tmp_path, retention_ms=50_000, **settings)
    assert log.delete_old_segments(10**9, 100) == 0
    log.segments.keep_from = lambda: 35
    assert log.delete_old_segments(9_000 + 50_000, 100) == 0
    assert log.delete_old_segments(10**9, 100) == 3
    await log.close()


async def test_a_log_of_which_the_broker_needs_the_end_keeps_its_last_record(
    runtime: TestRuntime, tmp_path: Path
) -> None:
    log = await ten_segments(runtime, tmp_path, retention_ms=50_000)
    log.segments.keep_from = lambda: log.log_end_offset - 1
    assert log.delete_old_segments(10**9, 100) == 9
    assert (log.log_start_offset, log.log_end_offset) == (90, 100)
    log.segments.keep_from = None
    assert log.delete_old_segments(10**9, 100) == 1
    await log.close()
