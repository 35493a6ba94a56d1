"""The quorum of one and the driver on it: what is answered is stable, what is not is undone."""

import asyncio
import errno
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from minikafka.controller import driver
from minikafka.controller.config import ControllerConfig
from minikafka.controller.driver import Controller, Events
from minikafka.controller.metadata.decision import Cluster, Decision
from minikafka.controller.quorum import metadata_log
from minikafka.controller.quorum import node as quorum_node
from minikafka.controller.quorum.metadata_log import MetadataLog
from minikafka.controller.quorum.quorum_state import read_quorum_state
from minikafka.controller.quorum.raft import RaftQuorum
from minikafka.controller.quorum.voters import QuorumSettings
from minikafka.protocol.control.batches import decode_batches, replay
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.quorum_messages import VoterKey
from minikafka.protocol.control.records import ConfigRecord
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import CorruptLog
from minikafka.storage.files import Files
from minikafka.storage.topic_config import TopicConfig

from .faulty_fs import FaultyDisk, runtime_on

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def put(key: str, value: str = "x") -> Decision[str]:
    """Any decision that writes a record, answered with its key."""
    return Decision(key, (ConfigRecord(4, "9", key, value),))


def look(key: str) -> Any:
    """A decision that only reads."""
    return lambda cluster: Decision(cluster.image.configs.get((4, "9"), {}).get(key))


class Node:
    """A controller without doors."""

    def __init__(self, directory: Path, snapshot_interval_bytes: int = 1 << 30) -> None:
        self.directory = str(directory)
        self.disk = FaultyDisk()
        self.failures: list[str] = []
        self.runtime = runtime_on(self.disk, self.failures)
        written = {"metadata.log.max.record.bytes.between.snapshots": str(snapshot_interval_bytes)}
        self.config = from_mapping(ControllerConfig, {"node.id": "9"} | written)
        self.controller: Controller
        self.quorum: RaftQuorum

    async def start(self) -> "Node":
        log = await MetadataLog.open(self.runtime, Files(self.disk, self.directory))
        me = VoterKey(9, bytes(15) + b"9")
        settings = QuorumSettings(me=me, voters=(9,))
        self.quorum = await RaftQuorum.open(self.runtime, log, settings, cluster_id=CLUSTER_ID)
        events = Events(
            on_failed=self.failures.append,
            on_active=lambda: None,
            on_inactive=lambda: None,
            on_cluster_id=lambda cluster_id: None,
            on_replayed=lambda records, delta: None,
        )
        self.controller = Controller(self.runtime, self.quorum, self.config, CLUSTER_ID, events)
        await self.controller.start()
        await self.controller.wait_until_settled(30_000)
        self.controller.check_active()
        return self

    async def put(self, key: str, value: str = "x") -> str:
        return await self.controller.decide(lambda cluster: put(key, value))

    async def kill(self) -> None:
        """kill -9: nothing is finished, nothing is saved."""
        errands = self.quorum._errands
        tasks = [*errands._tasks]
        if self.controller._following is not None:
            tasks.append(self.controller._following)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if errands._timer is not None:
            errands._timer.cancel()
        self.quorum._log._log.abandon()

    async def log_image(self) -> MetadataImage:
        """What a replay of the committed log alone gives."""
        image = MetadataImage()
        while image.offset + 1 < self.quorum.high_watermark:
            replay(image, await self.quorum.read(image.offset + 1, 1))
        return image


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = await Node(tmp_path).start()
    yield made
    await made.controller.stop()
    made.runtime.close()
    assert made.failures == []


def files_of(directory: Path, suffix: str) -> list[Path]:
    return sorted(directory.glob(f"__cluster_metadata-0/*{suffix}"))


async def active_again(node: Node) -> None:
    """It resigned, and stands again after a pause; if that is lost too, after another."""
    async with asyncio.timeout(30):
        while not node.controller.is_active:
            await node.controller.wait_until_settled(1000)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_nothing_is_answered_or_told_before_it_is_on_disk(node: Node) -> None:
    node.disk.is_running.clear()
    before = node.quorum.high_watermark
    asked = asyncio.create_task(node.put("a"))
    await turns()
    assert node.disk.sync_count > 0
    assert not asked.done()
    assert node.quorum.high_watermark == before
    assert await node.quorum.read(before, 1 << 20) == b""
    assert (4, "9") not in node.controller.committed.configs
    node.disk.is_running.set()
    assert await asked == "a"
    assert node.controller.committed.configs[4, "9"] == {"a": "x"}
    (batch,) = decode_batches(await node.quorum.read(before, 1 << 20))
    assert batch.base_offset == before


async def test_decisions_that_wait_share_one_flush(node: Node) -> None:
    await node.put("warm")
    node.disk.is_running.clear()
    first = asyncio.create_task(node.put("first"))
    await turns()
    before = node.disk.sync_count
    others = [asyncio.create_task(node.put(f"k{n}")) for n in range(50)]
    await turns()
    node.disk.is_running.set()
    assert await first == "first"
    assert await asyncio.gather(*others) == [f"k{n}" for n in range(50)]
    assert node.disk.sync_count == before + 1


async def test_a_14_a_look_at_what_is_not_committed_waits_for_it(node: Node) -> None:
    node.disk.is_running.clear()
    asked = asyncio.create_task(node.put("a", "new"))
    await turns()
    looked = asyncio.create_task(node.controller.decide(look("a")))
    await turns()
    assert not looked.done()
    node.disk.is_running.set()
    await asked
    assert await looked == "new"
    # With nothing pending there is nothing to wait for.
    node.disk.is_running.clear()
    assert await node.controller.decide(look("a")) == "new"
    node.disk.is_running.set()


async def test_what_is_refused_for_want_of_room_has_not_happened(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "PENDING_ANSWERS_MAX", 1)
    node.disk.is_running.clear()
    first = asyncio.ensure_future(node.put("a"))
    await turns()
    with pytest.raises(ApiError, match="try again later"):
        await node.put("b")
    node.disk.is_running.set()
    assert await first == "a"
    assert await node.controller.decide(look("b")) is None


async def test_the_next_decision_sees_what_is_not_yet_committed(node: Node) -> None:
    seen: list[str | None] = []

    def count(cluster: Cluster) -> Decision[None]:
        now = cluster.image.configs.get((4, "9"), {}).get("n")
        seen.append(now)
        return Decision(None, (ConfigRecord(4, "9", "n", str(int(now or 0) + 1)),))

    await asyncio.gather(*(node.controller.decide(count) for _ in range(3)))
    assert seen == [None, "1", "2"]


@pytest.mark.parametrize("writes_first", [False, True])
async def test_a_full_disk_fails_what_waits_and_undoes_it(
    node: Node, monkeypatch: pytest.MonkeyPatch, writes_first: bool
) -> None:
    node.disk.writes_first = writes_first
    monkeypatch.setattr(quorum_node, "WRITE_AGAIN_MS", 1)
    await node.put("kept")
    committed = node.controller.committed.copy()
    node.disk.fill()
    results = await asyncio.gather(node.put("lost"), node.put("lost too"), return_exceptions=True)
    for result in results:
        assert isinstance(result, ApiError)
        assert result.code is ErrorCode.NOT_CONTROLLER
    with pytest.raises(ApiError):
        node.controller.check_active()
    node.disk.write_error = 0
    await active_again(node)
    assert await node.controller.decide(look("lost")) is None
    assert node.controller.committed.configs == committed.configs
    assert await node.put("after") == "after"
    assert node.controller.cluster.image == node.controller.committed == await node.log_image()


async def test_half_a_group_on_disk_is_undone_with_the_other_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The group begins in one segment and fails in the next: what is in the first goes too."""
    monkeypatch.setattr(quorum_node, "WRITE_AGAIN_MS", 1)
    small = from_mapping(TopicConfig, {"segment.bytes": "500"})
    monkeypatch.setattr(metadata_log, "CONFIG", small)
    node = await Node(tmp_path).start()
    node.disk.is_running.clear()
    first = asyncio.create_task(node.put("first"))
    await turns()
    others = [asyncio.create_task(node.put(f"k{n}")) for n in range(10)]
    await turns()
    node.disk.fill()
    node.disk.writes_before_error = 2
    node.disk.is_running.set()
    assert await first == "first"
    results = await asyncio.gather(*others, return_exceptions=True)
    assert all(isinstance(result, ApiError) for result in results)
    assert node.disk.writes_before_error == 0
    node.disk.write_error = 0
    await active_again(node)
    await node.put("after")
    assert node.controller.committed.configs[4, "9"] == {"first": "x", "after": "x"}
    assert node.controller.committed == await node.log_image()
    await node.controller.stop()
    node.runtime.close()
    assert node.failures == []


async def test_a_failed_flush_ends_the_node(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    node.disk.sync_error = errno.EIO
    with pytest.raises(ApiError) as lost:
        await node.put("a")
    assert lost.value.code is ErrorCode.NOT_CONTROLLER
    assert len(node.failures) == 1
    assert "cannot be flushed" in node.failures[0]
    with pytest.raises(ApiError):
        await node.put("b")
    await node.kill()
    node.runtime.close()


async def test_19_after_a_kill_the_log_gives_the_same_image_in_a_new_epoch(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    for number in range(10):
        await node.put(f"k{number}")
    before, epoch = node.controller.committed.copy(), node.quorum.epoch
    await node.kill()
    again = await Node(tmp_path).start()
    assert again.quorum.epoch == epoch + 1
    assert again.controller.committed.configs == before.configs
    assert again.controller.committed == await again.log_image()
    await again.controller.stop()
    for each in (node, again):
        each.runtime.close()


async def test_what_was_answered_survives_a_torn_tail(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    await node.put("answered")
    await node.kill()
    (path,) = files_of(tmp_path, ".log")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    again = await Node(tmp_path).start()
    assert again.controller.committed.configs[4, "9"] == {"answered": "x"}
    await again.put("more")
    assert again.controller.committed == await again.log_image()
    await again.controller.stop()
    for each in (node, again):
        each.runtime.close()


async def test_19_snapshot_and_tail_give_the_same_image_as_the_whole_log(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    for number in range(20):
        await node.put(f"k{number % 7}", str(number))
    whole = await node.log_image()
    await node.quorum.write_snapshot(node.controller.committed.copy())
    snapshot = node.quorum.snapshot
    assert snapshot is not None
    assert snapshot.end_offset == node.quorum.high_watermark == node.quorum.log_start_offset
    assert await node.quorum.load() == whole
    await node.put("tail")
    image = await node.quorum.load()
    replay(image, await node.quorum.read(image.offset + 1, 1 << 20))
    assert image == node.controller.committed
    expected = node.controller.committed.configs
    await node.kill()
    again = await Node(tmp_path).start()
    assert again.controller.committed.configs == expected
    assert again.quorum.snapshot == snapshot
    await again.controller.stop()
    for each in (node, again):
        each.runtime.close()


async def test_a_snapshot_may_take_the_log_from_under_whoever_replays_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        await node.put(f"k{number}")
    behind = MetadataImage()
    replay(behind, await node.quorum.read(0, 1))
    whole, read = node.controller.committed, node.quorum.read

    async def overtaken(offset: int, max_bytes: int) -> bytes:
        if node.quorum.snapshot is None:
            await node.quorum.write_snapshot(whole.copy())
        return await read(offset, max_bytes)

    monkeypatch.setattr(node.quorum, "read", overtaken)
    node.controller.committed = behind
    await node.controller._catch_up()
    assert node.controller.committed is behind, "there was nothing to read"
    assert behind.offset + 1 < node.quorum.log_start_offset
    assert node.quorum.is_leader, "it may have been elected while it read"
    await node.controller._catch_up()
    assert node.controller.committed == whole


async def test_snapshots_come_by_themselves_and_old_ones_go(tmp_path: Path) -> None:
    node = await Node(tmp_path, snapshot_interval_bytes=2000).start()
    for number in range(200):
        await node.put("k", str(number))
    if node.controller._snapshotting is not None:
        await node.controller._snapshotting
    await node.controller.stop()
    names = [path.name for path in files_of(tmp_path, ".checkpoint")]
    assert len(names) == 2
    assert int(names[-1][:20]) > 100
    node.runtime.close()


async def test_a_snapshot_without_its_log_is_gone_on_from(tmp_path: Path) -> None:
    """The log may be lost behind a snapshot: a crash while its first segment was being removed."""
    node = await Node(tmp_path).start()
    await node.put("a")
    await node.quorum.write_snapshot(node.controller.committed.copy())
    await node.kill()
    for suffix in (".log", "index"):
        for path in files_of(tmp_path, suffix):
            path.unlink()
    again = await Node(tmp_path).start()
    assert again.controller.committed.configs[4, "9"] == {"a": "x"}
    assert await again.put("b") == "b"
    await again.controller.stop()
    for each in (node, again):
        each.runtime.close()


async def test_a_full_disk_is_survived_by_a_controller_with_a_snapshot(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quorum_node, "WRITE_AGAIN_MS", 1)
    await node.put("kept")
    await node.quorum.write_snapshot(node.controller.committed.copy())
    node.disk.fill()
    with pytest.raises(ApiError):
        await node.put("lost")
    node.disk.write_error = 0
    await active_again(node)
    assert await node.controller.decide(look("kept")) == "x"
    assert await node.put("after") == "after"


async def test_a_snapshot_that_cannot_be_written_is_done_without(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await node.put("a")
    with monkeypatch.context() as patch:
        patch.setattr(node.disk, "rename", no_space)
        await node.quorum.write_snapshot(node.controller.committed.copy())
        assert "no snapshot" in caplog.text
        assert not has_snapshot(node)
        assert await node.put("b") == "b"
    await node.quorum.write_snapshot(node.controller.committed.copy())
    assert has_snapshot(node)
    assert await node.put("c") == "c"


def has_snapshot(node: Node) -> bool:
    return node.quorum.snapshot is not None


def no_space(source: str, target: str) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("has_log", [True, False])
async def test_a_damaged_snapshot_is_never_trusted(tmp_path: Path, has_log: bool) -> None:
    """The log makes up for it if it reaches back to the one before; an only voter has no other."""
    node = await Node(tmp_path).start()
    await node.put("a")
    await node.quorum.write_snapshot(node.controller.committed.copy())
    expected = node.controller.committed.configs
    await node.controller.stop()
    node.runtime.close()
    (path,) = files_of(tmp_path, ".checkpoint")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    if not has_log:
        for log in files_of(tmp_path, ".log"):
            log.rename(log.with_name(f"{20:020d}.log"))
            log.with_name(f"{20:020d}.log").write_bytes(b"")
    again = Node(tmp_path)
    if has_log:
        await again.start()
        assert again.controller.committed.configs == expected
        await again.controller.stop()
    else:
        with pytest.raises(CorruptLog, match="no snapshot"):
            await again.start()
    again.runtime.close()
    assert len(files_of(tmp_path, ".damaged")) == 1


async def test_the_epoch_is_stable_before_it_is_used(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        node = await Node(tmp_path).start()
        state = read_quorum_state(
            Files(node.disk, node.directory), f"{tmp_path}/__cluster_metadata-0", CLUSTER_ID
        )
        assert state is not None
        assert state.epoch == node.quorum.epoch
        epochs.append(node.quorum.epoch)
        await node.kill()
        node.runtime.close()
    assert epochs == [1, 2, 3]


async def test_the_state_of_another_cluster_is_refused(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    with pytest.raises(CorruptLog, match="belongs to cluster"):
        read_quorum_state(
            Files(node.disk, node.directory), f"{tmp_path}/__cluster_metadata-0", "other"
        )
    await node.controller.stop()
    node.runtime.close()
