"""A partition over a real log: produce, fetch, follow, change roles, fail."""

import logging
from collections.abc import AsyncIterator
from copy import deepcopy
from pathlib import Path

import pytest

from minikafka.broker.partition.partition import Partition
from minikafka.broker.partition.requests import Appended, FetchSpec
from minikafka.broker.replica.follower import Phase
from minikafka.broker.upkeep.upkeep import Upkeep
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import EpochEndOffset
from minikafka.protocol.messages.list_offsets import (
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from minikafka.protocol.types import OffsetAndEpoch, TopicPartition
from minikafka.runtime.errors import LogDirectoryFailed
from minikafka.storage.checkpoints import decode_offsets
from minikafka.storage.log import Log

from .channel_support import config_with
from .node_support import (
    ME,
    ORDERS,
    WALL_MS,
    B,
    C,
    Node,
    batch,
    led_batch,
    state,
    values_in,
)

LEAD = state(ME)
FOLLOW = state(B)


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    made = await Node(tmp_path).start()
    yield made
    await made.stop()


class Caller:
    """A waiter, and how often it was called."""

    def __init__(self, *, is_follower: bool = False) -> None:
        self.is_follower = is_follower
        self.calls = 0

    def note(self, partition: Partition) -> None:
        pass

    def on_data(self, partition: Partition) -> None:
        self.calls += 1


def consume(partition: Partition, offset: int) -> list[bytes | None]:
    answer = partition.fetch(FetchSpec(offset, 1 << 20), now_ms=0)
    assert answer.error == ErrorCode.NONE
    return values_in(answer.records)


def wait_for(partition: Partition, appended: Appended, deadline_ms: int = 9_000) -> list[str]:
    told: list[str] = []
    partition.when_committed(appended, deadline_ms, lambda: told.append(appended.error.name))
    return told


async def test_an_append_gets_the_next_offsets_and_is_read_below_the_high_watermark(
    node: Node,
) -> None:
    partition = await node.give(LEAD)
    first, second = node.produce(b"a", b"b"), node.produce(b"c")
    assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
    assert consume(partition, 0) == []
    node.fetched_by(B, C, offset=2)
    assert partition.high_watermark == 2
    assert consume(partition, 0) == [b"a", b"b"]
    node.fetched_by(B, C, offset=3)
    assert consume(partition, 1) == [b"a", b"b", b"c"], "whole batches, from the one that holds 1"


async def test_what_one_read_event_staged_is_written_at_once(node: Node) -> None:
    partition = await node.give(LEAD)
    for value in (b"a", b"b"):
        partition.append_as_leader(memoryview(batch(value)), acks=1, wall_ms=WALL_MS)
    assert partition.log_end_offset == 0
    assert node.partitions.host.dirty == [partition]
    node.partitions.write_staged()
    assert partition.log_end_offset == 2
    assert node.partitions.host.dirty == []


async def test_reading_writes_first_what_is_staged(node: Node) -> None:
    partition = await node.give(LEAD)
    partition.append_as_leader(memoryview(batch(b"a")), acks=1, wall_ms=WALL_MS)
    answer = partition.fetch(node.follower_fetch(B, 0), now_ms=0)
    assert values_in(answer.records) == [b"a"]
    node.partitions.write_staged()
    assert partition.log_end_offset == 1


async def test_acks_all_is_answered_when_the_isr_has_it(node: Node) -> None:
    partition = await node.give(LEAD)
    told = wait_for(partition, node.produce(b"a", acks=-1))
    node.fetched_by(B, offset=1)
    assert told == []
    node.fetched_by(C, offset=1)
    assert told == ["NONE"]


async def test_acks_all_that_is_committed_already_is_answered_at_once(node: Node) -> None:
    partition = await node.give(state(ME, replicas=(ME,), isr=(ME,)))
    assert wait_for(partition, node.produce(b"a", acks=-1)) == ["NONE"]


async def test_b_14_below_min_isr_acks_all_is_refused_and_nothing_is_written(node: Node) -> None:
    partition = await node.give(state(ME, isr=(ME,)))
    assert node.produce(b"a", acks=-1).error == ErrorCode.NOT_ENOUGH_REPLICAS
    assert partition.log_end_offset == 0


async def test_b_15_after_a_shrink_the_waiter_times_out_and_the_record_commits_later(
    node: Node,
) -> None:
    partition = await node.give(state(ME, isr=(ME, B)))
    appended = node.append(batch(b"a", producer=(9, 0, 0)), acks=-1)
    told = wait_for(partition, appended, deadline_ms=node.now_ms + 50)
    await node.change(state(ME, isr=(ME,), partition_epoch=2))
    assert partition._commit_waiters is not None
    node.now_ms += 60
    node.wheel._turn()
    assert told == ["REQUEST_TIMED_OUT"]
    assert consume(partition, 0) == []
    await node.change(state(ME, isr=(ME, B), partition_epoch=3))
    again = node.append(batch(b"a", producer=(9, 0, 0)), acks=-1)
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 0)
    told = wait_for(partition, again)
    node.fetched_by(B, offset=1)
    assert told == ["NONE"]
    assert consume(partition, 0) == [b"a"]


async def test_b_16_below_min_isr_acks_1_is_written_and_not_visible(node: Node) -> None:
    partition = await node.give(state(ME, isr=(ME,)))
    assert node.produce(b"a", acks=1).error == ErrorCode.NONE
    assert consume(partition, 0) == []


async def test_min_isr_set_at_run_time_makes_it_visible(node: Node) -> None:
    partition = await node.give(state(ME, isr=(ME,)))
    told = wait_for(partition, node.produce(b"a", acks=1))
    await node.configure("min.insync.replicas", "1")
    assert told == ["NONE"]
    assert consume(partition, 0) == [b"a"]


async def test_a_change_of_role_fails_those_who_wait(node: Node) -> None:
    partition = await node.give(LEAD)
    told = wait_for(partition, node.produce(b"a", acks=-1))
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    assert told == ["NOT_LEADER_OR_FOLLOWER"]
    assert node.produce(b"b").error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_deleted_topic_fails_those_who_wait_and_its_files_go(node: Node) -> None:
    partition = await node.give(LEAD)
    told = wait_for(partition, node.produce(b"a", acks=-1))
    waiter = Caller()
    partition.data_waiters.add(waiter)
    await node.forget_topic()
    assert (told, waiter.calls) == (["UNKNOWN_TOPIC_OR_PARTITION"], 1)
    assert partition.fetch(FetchSpec(0, 100), 0).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.partitions.get(ORDERS, 0) == ErrorCode.UNKNOWN_TOPIC_ID
    assert not (node.root / "data" / "orders-0").exists()


async def test_d_12_a_topic_made_again_under_its_name_starts_empty(node: Node) -> None:
    await node.give(LEAD)
    node.produce(b"a")
    await node.forget_topic()
    partition = await node.give(LEAD)
    assert partition.log_end_offset == 0


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda data: data[:30], ErrorCode.CORRUPT_MESSAGE),
        (lambda data: data[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE),
        (lambda data: data + batch(b"z"), ErrorCode.INVALID_RECORD),
        (lambda data: data[:16] + b"\x01" + data[17:], ErrorCode.INVALID_RECORD),
    ],
    ids=["cut", "checksum", "two-batches", "magic-1"],
)
async def test_a_bad_batch_is_refused_and_nothing_is_written(
    node: Node, spoil: object, error: ErrorCode
) -> None:
    partition = await node.give(LEAD)
    appended = node.append(bytearray(spoil(batch(b"a"))))  # type: ignore[operator]
    assert appended.error == error
    assert partition.log_end_offset == 0


async def test_a_batch_above_max_message_bytes_is_refused(node: Node) -> None:
    await node.give(LEAD)
    await node.configure("max.message.bytes", "100")
    assert node.produce(b"x" * 200).error == ErrorCode.MESSAGE_TOO_LARGE


async def test_log_append_time_is_written_into_the_batch(node: Node) -> None:
    partition = await node.give(state(ME, replicas=(ME,), isr=(ME,)))
    await node.configure("message.timestamp.type", "LogAppendTime")
    data = batch(b"a")
    appended = partition.append_as_leader(memoryview(data), acks=1, wall_ms=WALL_MS + 5)
    node.partitions.write_staged()
    assert appended.log_append_time_ms == WALL_MS + 5
    assert values_in(partition.fetch(FetchSpec(0, 1 << 20), 0).records) == [b"a"]
    answer = partition.list_offset(MAX_TIMESTAMP)
    assert answer.later is not None
    found = await answer.later()
    assert (found.offset, found.timestamp_ms) == (0, WALL_MS + 5)


async def test_a_compacted_topic_refuses_records_without_key(node: Node) -> None:
    await node.give(LEAD)
    await node.configure("cleanup.policy", "compact")
    from minikafka.protocol.records.record_batch import build

    assert node.append(build([(WALL_MS, None, b"v")])).error == ErrorCode.INVALID_RECORD
    assert node.append(build([(WALL_MS, b"k", b"v")])).error == ErrorCode.NONE


async def test_g_06_a_gap_in_the_sequence_is_refused_and_a_repeat_gets_its_old_offset(
    node: Node,
) -> None:
    await node.give(LEAD)
    first, second = batch(b"a", producer=(9, 0, 0)), batch(b"b", producer=(9, 0, 1))
    assert node.append(bytearray(first)).base_offset == 0
    early = node.append(batch(b"c", producer=(9, 0, 2)))
    assert early.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert node.append(second).base_offset == 1
    repeat = node.append(first)
    assert (repeat.error, repeat.base_offset) == (ErrorCode.NONE, 0)
    assert node[0].log_end_offset == 2


async def test_two_batches_of_one_producer_in_one_read_event_are_in_sequence(node: Node) -> None:
    partition = await node.give(LEAD)
    errors = [
        partition.append_as_leader(
            memoryview(batch(b"x", producer=(9, 0, n))), acks=1, wall_ms=WALL_MS
        ).error
        for n in (0, 1, 1)
    ]
    node.partitions.write_staged()
    assert errors == [ErrorCode.NONE] * 3
    assert partition.log_end_offset == 2, "the third repeats the second"


async def test_a_follower_is_told_where_its_history_leaves_ours(node: Node) -> None:
    partition = await node.give(LEAD)
    node.produce(b"a")
    await node.change(state(ME, leader_epoch=4, partition_epoch=2))
    answer = partition.fetch(node.follower_fetch(B, 3, last_epoch=2), now_ms=0)
    assert answer.diverging == OffsetAndEpoch(1, 1)
    assert partition.leader is not None
    assert partition.leader.followers[B].log_end_offset == -1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"current_leader_epoch": 2}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"replica_id": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"fetch_offset": 5}, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"broker_epoch": 0}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["old-epoch", "new-epoch", "not-assigned", "beyond-the-end", "b-07-old-incarnation"],
)
async def test_a_fetch_that_is_not_valid_records_nothing(
    node: Node, changes: dict[str, int], error: ErrorCode
) -> None:
    partition = await node.give(LEAD)
    spec = node.follower_fetch(B, 0)
    for name, value in changes.items():
        setattr(spec, name, value)
    answer = partition.fetch(spec, now_ms=0)
    assert answer.error == error
    assert (answer.leader_id, answer.leader_epoch) == (ME, 1)
    assert partition.leader is not None
    assert partition.leader.followers[B].log_end_offset == -1


@pytest.mark.parametrize(
    ("broker", "epoch_change", "error", "why"),
    [
        (B, -1, ErrorCode.NOT_LEADER_OR_FOLLOWER, "it has started anew since"),
        (99, 0, ErrorCode.UNKNOWN_LEADER_EPOCH, "no such broker registered"),
    ],
    ids=["old-incarnation", "unknown-broker"],
)
async def test_a_fetch_of_an_impostor_is_refused_without_a_trace_and_logged_once(
    node: Node,
    caplog: pytest.LogCaptureFixture,
    broker: int,
    epoch_change: int,
    error: int,
    why: str,
) -> None:
    partition = await node.give(LEAD, LEAD)
    node.produce(b"a")
    assert partition.leader is not None
    before = deepcopy(partition.leader.followers)
    spec = node.follower_fetch(B, 1, 1)
    spec.replica_id, spec.broker_epoch = broker, spec.broker_epoch + epoch_change
    for index in (0, 1, 0):
        answer = node[index].fetch(spec, node.now_ms)
        assert (answer.error, bytes(answer.records)) == (error, b"")
    assert partition.leader.followers == before
    assert (partition.leader.proposal, partition.high_watermark) == (None, 0)
    assert len([each for each in caplog.messages if why in each]) == 1


async def test_appends_wake_followers_and_commits_wake_consumers(node: Node) -> None:
    partition = await node.give(LEAD)
    follower, consumer = Caller(is_follower=True), Caller()
    partition.data_waiters.add(follower)
    partition.data_waiters.add(consumer)
    node.produce(b"a")
    assert (follower.calls, consumer.calls) == (1, 0)
    node.fetched_by(B, C, offset=1)
    assert (follower.calls, consumer.calls) == (1, 1)
    partition.data_waiters.remove(follower)
    partition.data_waiters.remove(follower)
    node.produce(b"b")
    assert follower.calls == 1
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    assert consumer.calls == 2, "the leader moved: there is something to say"


async def test_b_18_latest_is_not_told_before_the_new_epoch_has_committed(node: Node) -> None:
    partition = await node.give(FOLLOW)
    node.follow(led_batch(0, 1, b"a", b"b"), high_watermark=1)
    await node.change(state(ME, leader_epoch=2, partition_epoch=2))
    assert partition.list_offset(LATEST_TIMESTAMP).error == ErrorCode.OFFSET_NOT_AVAILABLE
    assert partition.list_offset(LATEST_TIMESTAMP, replica_id=B).offset == 2
    assert partition.list_offset(EARLIEST_TIMESTAMP).offset == 0
    node.fetched_by(B, C, offset=2)
    answer = partition.list_offset(LATEST_TIMESTAMP)
    assert (answer.error, answer.offset) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("timestamp", [LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP])
async def test_without_tiered_storage_no_offset_is_tiered_or_waits_to_be(
    node: Node, timestamp: int
) -> None:
    partition = await node.give(LEAD)
    node.produce(b"a")
    answer = partition.list_offset(timestamp)
    assert (answer.error, answer.offset, answer.leader_epoch) == (ErrorCode.NONE, -1, -1)


async def test_offsets_are_looked_up_by_time_below_the_high_watermark(node: Node) -> None:
    partition = await node.give(LEAD)
    node.produce(b"a")
    later = partition.list_offset(WALL_MS).later
    assert later is not None
    assert (await later()).offset == -1
    node.fetched_by(B, C, offset=1)
    found = await later()
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (0, WALL_MS, 1)


async def test_the_end_of_an_epoch_is_told_by_the_leader_only(node: Node) -> None:
    partition = await node.give(LEAD)
    node.produce(b"a", b"b")
    await node.change(state(ME, leader_epoch=3, partition_epoch=2))
    found = partition.end_offset_for_epoch(2)
    assert (found.offset, found.leader_epoch) == (2, 1)
    assert partition.end_offset_for_epoch(9).offset == -1
    await node.change(state(B, leader_epoch=4, partition_epoch=3))
    assert partition.end_offset_for_epoch(1).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_follower_appends_exactly_what_the_leader_sent(node: Node) -> None:
    partition = await node.give(FOLLOW)
    sent = led_batch(0, 1, b"a", b"b") + led_batch(2, 1, b"c")
    node.follow(sent + led_batch(3, 1, b"cut off")[:70], high_watermark=2)
    assert (partition.log_end_offset, partition.high_watermark) == (3, 2)
    stored = partition.log.reader.read(0, max_bytes=1 << 20, up_to=3).data
    assert bytes(stored) == bytes(sent)
    assert partition.log.latest_epoch == 1


async def test_a_follower_takes_nothing_of_a_damaged_answer(node: Node) -> None:
    partition = await node.give(FOLLOW)
    damaged = led_batch(0, 1, b"a") + led_batch(1, 1, b"b")
    damaged[-1] ^= 1
    node.follow(damaged, high_watermark=2)
    assert partition.log_end_offset == 0
    assert partition.follower is not None
    assert partition.follower.phase is Phase.DELAYED


async def test_a_follower_remembers_producers_for_the_day_it_leads(node: Node) -> None:
    await node.give(FOLLOW)
    data = batch(b"a", producer=(9, 0, 0))
    sent = bytearray(data)
    sent[12:16] = (1).to_bytes(4, "big")
    node.follow(sent, high_watermark=1)
    await node.change(state(ME, leader_epoch=2, partition_epoch=2))
    assert node.append(data).base_offset == 0
    assert node[0].log_end_offset == 1


async def test_a_follower_truncates_what_its_leader_never_had(node: Node) -> None:
    partition = await node.give(LEAD)
    node.produce(b"a")
    node.produce(b"b")
    await node.change(state(B, leader_epoch=2, partition_epoch=2))
    node.follow(b"", diverging=EpochEndOffset(epoch=1, end_offset=1))
    assert partition.log_end_offset == 1
    node.follow(led_batch(1, 2, b"other"), high_watermark=2)
    # What follows a cut lies in a segment of its own, and a read ends with its segment.
    stored = [partition.log.reader.read(n, max_bytes=1 << 20, up_to=2).data for n in range(2)]
    assert [values_in(data) for data in stored] == [[b"a"], [b"other"]]


async def test_c_16_a_follower_refuses_to_lose_what_was_committed(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    partition = await node.give(FOLLOW)
    node.follow(led_batch(0, 1, b"a", b"b"), high_watermark=2)
    await node.change(state(C, leader_epoch=2, partition_epoch=2))
    node.follow(b"", diverging=EpochEndOffset(epoch=1, end_offset=0))
    assert (partition.log_end_offset, partition.high_watermark) == (2, 2)
    assert "no unclean election is on record" in caplog.text


async def test_one_line_names_what_an_unclean_election_lost(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    partition = await node.give(FOLLOW)
    for offset in range(4):
        node.follow(led_batch(offset, 1, b"a"), high_watermark=offset + 1)
    await node.change(state(C, leader_epoch=2, partition_epoch=2, unclean_epoch=2, isr=(C,)))
    node.follow(b"", diverging=EpochEndOffset(epoch=1, end_offset=1))
    node.follow(led_batch(1, 2, b"new"), high_watermark=2)
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert lines == ["orders-0: unclean leader election lost offsets 1 to 3 (3 records)"]
    assert (partition.log_end_offset, partition.high_watermark) == (2, 2)


async def test_an_unclean_leader_reports_itself_recovered(node: Node) -> None:
    await node.give(
        state(ME, isr=(ME,), leader_epoch=2, recovering=True, unclean_epoch=2, partition_epoch=3)
    )
    (proposal,) = node.proposals
    assert proposal.isr == ((ME, node.epoch(ME)),)
    assert proposal.partition_epoch == 3


async def test_after_kill_9_the_log_and_its_history_are_there(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    await node.give(LEAD)
    node.append(batch(b"a", b"b", producer=(9, 0, 0)))
    node.kill()
    again = await Node(tmp_path).start()
    partition = await again.give(state(ME, leader_epoch=2, partition_epoch=2))
    assert partition.log_end_offset == 2
    assert list(partition.log.leader_epochs) == [(1, 0), (2, 2)]
    assert again.append(batch(b"a", b"b", producer=(9, 0, 0))).base_offset == 0
    await again.stop()


async def test_a_clean_stop_keeps_the_high_watermark(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    await node.give(LEAD)
    node.produce(b"a", b"b")
    node.fetched_by(B, C, offset=2)
    await node.stop()
    again = await Node(tmp_path).start()
    assert again.partitions.store.directories[0].clean_broker_epoch == 7
    partition = await again.give(state(B, leader_epoch=2, partition_epoch=2))
    assert partition.high_watermark == 2
    await again.stop()


async def test_high_watermarks_are_checkpointed_only_where_one_moved(node: Node) -> None:
    async def note_metadata() -> None:
        pass

    upkeep = Upkeep(node.runtime, config_with(), node.partitions, lambda: 60_000, note_metadata)
    path = node.root / "data" / "replication-offset-checkpoint"
    await node.give(LEAD)
    node.produce(b"a")
    await upkeep.checkpoint()
    assert not path.exists()
    node.fetched_by(B, C, offset=1)
    await upkeep.checkpoint()
    assert decode_offsets(path.read_bytes()) == {TopicPartition("orders", 0): 1}
    path.unlink()
    await upkeep.checkpoint()
    assert not path.exists()


async def test_d_13_a_log_that_nobody_knows_is_put_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = await Node(tmp_path).start()
    await node.give(LEAD)
    node.produce(b"a")
    await node.stop()
    again = await Node(tmp_path).start()
    again.partitions.store.quarantine_strays()
    (stray,) = (path.name for path in (tmp_path / "data").iterdir() if path.is_dir())
    assert stray.startswith("orders-0.")
    assert stray.endswith("-stray")
    assert "orders-0 is not in the metadata" in caplog.text
    await again.stop()


async def test_a_log_of_another_topic_of_that_name_is_put_aside(tmp_path: Path) -> None:
    node = await Node(tmp_path).start()
    await node.give(LEAD)
    node.produce(b"a")
    await node.stop()
    metadata = tmp_path / "data" / "orders-0" / "partition.metadata"
    metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    again = await Node(tmp_path).start()
    partition = await again.give(LEAD)
    assert partition.log_end_offset == 0
    await again.stop()


async def test_d_11_a_failing_directory_takes_only_its_own_partitions_offline(
    tmp_path: Path,
) -> None:
    node = await Node(tmp_path).start("one", "two")
    await node.give(LEAD, LEAD)
    told = wait_for(node[0], node.produce(b"a", acks=-1))
    broken, whole = node.partitions.directory_of(node[0]), node.partitions.directory_of(node[1])
    assert broken is not whole
    with pytest.raises(LogDirectoryFailed), broken.files.guard:
        raise OSError(5, "Input/output error")
    assert node.produce(b"b").error == ErrorCode.KAFKA_STORAGE_ERROR
    assert told == ["KAFKA_STORAGE_ERROR"]
    assert node.produce(b"c", index=1).error == ErrorCode.NONE
    assert node[0].fetch(FetchSpec(0, 100), 0).error == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.failed == [broken]
    assert node.partitions.store.online == [whole]
    await node.stop()


async def test_a_follower_whose_disk_refuses_records_does_not_know_them_committed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = await node.give(state(B, isr=(B, ME)))
    files = node.partitions.directory_of(partition).files

    def fail(*_: object, **__: object) -> None:
        with files.guard:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(Log, "append", fail)
    node.follow(led_batch(0, 1, b"a"), high_watermark=1)
    assert partition.offline_because is ErrorCode.KAFKA_STORAGE_ERROR
    assert (partition.high_watermark, partition.log_end_offset) == (0, 0)


async def test_a_new_partition_goes_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    node = await Node(tmp_path).start("one", "two")
    await node.give(*[LEAD] * 4)
    counts = [len(directory.logs) for directory in node.partitions.store.directories]
    assert counts == [2, 2]
    await node.stop()


async def test_metadata_older_than_ours_changes_nothing(node: Node) -> None:
    partition = await node.give(state(ME, leader_epoch=3, partition_epoch=5))
    await node.change(state(B, leader_epoch=2, partition_epoch=4))
    assert partition.leader is not None


async def test_a_fenced_outsider_is_no_longer_waited_for(node: Node) -> None:
    partition = await node.give(state(ME, isr=(ME, B)))
    node.fetched_by(C, offset=0)
    assert partition.leader is not None
    (proposal,) = node.proposals
    partition.leader.on_proposal_failed(proposal, ErrorCode.INELIGIBLE_REPLICA, node.now_ms)
    node.produce(b"a")
    node.fetched_by(B, offset=1)
    assert partition.high_watermark == 0
    await node.fence(C)
    assert partition.high_watermark == 1


async def test_unknown_partitions_are_told_apart(node: Node) -> None:
    await node.give(LEAD, state(B, replicas=(B, C), isr=(B, C)))
    partitions = node.partitions
    assert partitions.find("orders", 0) is node[0]
    assert partitions.get(ORDERS, 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions.find("orders", 2) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.find("nothing", 0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.get(bytes(16), 0) == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_replica_that_left_the_assignment_is_deleted(node: Node) -> None:
    await node.give(FOLLOW)
    node.follow(led_batch(0, 1, b"a"))
    assert (node.root / "data" / "orders-0").exists()
    await node.change(state(B, replicas=(B, C), isr=(B, C), partition_epoch=2))
    assert list(node.partitions) == []
    assert not (node.root / "data" / "orders-0").exists()


async def test_a_replica_that_comes_back_has_the_settings_of_today(node: Node) -> None:
    """With the minimum ISR of the past it would commit alone, and could lose the record."""
    await node.give(LEAD)
    await node.configure("min.insync.replicas", "1")
    assert node[0].metadata.effective_min_isr == 1
    await node.change(state(B, replicas=(B, C), isr=(B, C), partition_epoch=2))
    await node.configure("min.insync.replicas", "2")
    await node.change(state(ME, leader_epoch=2, partition_epoch=3))
    assert node[0].metadata.effective_min_isr == 2


async def test_an_idle_partition_has_no_files(node: Node) -> None:
    await node.give(LEAD)
    assert not (node.root / "data" / "orders-0").exists()
    assert node.partitions.store.directories[0].logs.keys() == {TopicPartition("orders", 0)}
