"""Following the metadata log: when to act, what to skip, when to believe nothing."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from minikafka.broker.control.metadata_follower import DEPOSED_MS, MetadataFollower
from minikafka.broker.control.metadata_position import GIVEN_UP, MetadataLost, MetadataPosition
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.protocol.control.messages import MetadataFetched, SnapshotFetched, SnapshotId
from minikafka.protocol.control.records import (
    ClusterRecord,
    FeatureRecord,
    MetadataRecord,
    TopicRecord,
    encode_record,
)
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.records import record_batch
from minikafka.protocol.types import OffsetAndEpoch
from minikafka.runtime.runtime import SystemRuntime

from .channel_support import FakeChannel

GONE = MetadataFetched(ErrorCode.OFFSET_OUT_OF_RANGE, "start again", epoch=5)
OUTDATED = MetadataFetched(ErrorCode.OFFSET_OUT_OF_RANGE, "start again", epoch=4)
"""Of a controller that another one has replaced in epoch 5, of which it has not heard yet."""


def topic(name: str) -> TopicRecord:
    return TopicRecord(name, name.encode().ljust(16, b"."))


def logged(offset: int, *records: MetadataRecord, epoch: int = 1) -> bytes:
    """A batch of the metadata log."""
    return bytes(
        record_batch.build(
            [(0, None, encode_record(record)) for record in records],
            base_offset=offset,
            leader_epoch=epoch,
        )
    )


class Following:
    """A metadata follower, and what it published."""

    def __init__(self, seen: OffsetAndEpoch | None = None) -> None:
        self.channel = FakeChannel()
        self.published: list[tuple[bool, list[str], int]] = []
        self.lost: asyncio.Queue[MetadataLost] = asyncio.Queue()
        self.position = MetadataPosition(list)
        self.position.seen = seen
        self.runtime = SystemRuntime()
        self.follower = MetadataFollower(
            self.runtime,
            self.channel.as_channel(),
            self._publish,
            self.position,
            self.lost.put_nowait,
        )
        self.follower.start()

    async def _publish(self, delta: Delta, image: MetadataImage) -> None:
        names = [image.topics[topic_id].name for topic_id in delta.new_topics]
        self.published.append((delta.is_snapshot, names, image.offset))

    async def give(self, records: bytes, high_watermark: int) -> tuple[int, int]:
        answer = MetadataFetched(0, high_watermark=high_watermark, epoch=1, records=records)
        request = await self.channel.answer(answer)
        return request.offset, request.epoch


@pytest.fixture
async def following() -> AsyncIterator[Following]:
    made = Following()
    yield made
    await made.follower.close()


async def test_nothing_is_done_before_our_own_registration_is_reached(
    following: Following,
) -> None:
    """Registered at offset 3: what is said before is history."""
    assert await following.give(logged(0, ClusterRecord("c"), topic("a")), 4) == (0, -1)
    assert await following.give(logged(2, topic("b")), 4) == (2, 1)
    assert following.published == []
    assert not following.follower.is_caught_up
    await following.give(logged(3, topic("c")), 4)
    await following.follower.wait_until_caught_up()
    assert following.published == [(True, ["c"], 3)]
    assert [t.name for t in following.follower.image.topics.values()] == ["a", "b", "c"]


async def test_then_every_step_is_published(following: Following) -> None:
    await following.give(logged(0, *(topic(name) for name in "abcd")), 4)
    await following.give(logged(4, topic("e")), 5)
    await following.channel.next_call()
    assert following.published[1:] == [(False, ["e"], 4)]


async def test_an_empty_answer_publishes_nothing(following: Following) -> None:
    await following.give(logged(0, *(topic(name) for name in "abcd")), 4)
    assert await following.give(b"", 4) == (4, 1)
    await following.channel.next_call()
    assert len(following.published) == 1


async def test_what_the_image_holds_already_is_not_applied_twice(following: Following) -> None:
    batch = logged(0, *(topic(name) for name in "abcd"))
    await following.give(batch, 4)
    await following.give(batch + logged(4, topic("e")), 5)
    await following.channel.next_call()
    assert following.published[-1] == (False, ["e"], 4)


async def test_a_log_without_our_records_has_lost_something_and_is_not_followed(
    following: Following,
) -> None:
    await following.give(logged(0, *(topic(name) for name in "abcd")), 4)
    await following.channel.answer(GONE)
    lost = await asyncio.wait_for(following.lost.get(), 10)
    assert lost.seen == OffsetAndEpoch(3, 1)
    assert [image_offset for _, _, image_offset in following.published] == [3]


async def test_what_was_acted_upon_before_the_start_is_asked_for_first() -> None:
    following = Following(OffsetAndEpoch(41, 5))
    request = await following.channel.answer(MetadataFetched(0, high_watermark=50))
    assert (request.offset, request.epoch, request.max_wait_ms) == (42, 5, 0)
    assert await following.give(logged(0, *(topic(name) for name in "abcd")), 4) == (0, -1)
    await following.channel.next_call()
    assert following.position.seen == OffsetAndEpoch(3, 1)
    await following.follower.close()


async def test_controllers_that_lack_it_are_not_followed() -> None:
    following = Following(OffsetAndEpoch(41, 5))
    await following.channel.answer(GONE)
    lost = await asyncio.wait_for(following.lost.get(), 10)
    assert following.published == []
    assert f"{GIVEN_UP}=41" in str(lost)
    await following.follower.close()


async def test_a_controller_that_was_deposed_has_lost_nothing() -> None:
    """Neither before the first step nor later: its successor is found, and has everything."""
    following = Following(OffsetAndEpoch(3, 5))
    await following.channel.answer(OUTDATED)
    await following.channel.answer(ApiError(ErrorCode.NOT_CONTROLLER, "deposed"))
    assert (await following.channel.answer(MetadataFetched(0, epoch=5))).offset == 4
    records = logged(0, *(topic(name) for name in "abcd"), epoch=5)
    await following.give(records, 4)
    await following.channel.answer(OUTDATED)
    assert await following.give(logged(4, topic("e"), epoch=5), 5) == (4, 5)
    await following.channel.next_call()
    assert following.published[-1] == (False, ["e"], 4)
    assert following.lost.empty()
    await following.follower.close()


async def test_controllers_of_an_older_epoch_that_stay_have_lost_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those that came back on an old copy of their directories."""
    following = Following(OffsetAndEpoch(41, 5))
    now_ms = 1_000
    monkeypatch.setattr(following.runtime, "monotonic_ms", lambda: now_ms)
    for later_ms in (0, DEPOSED_MS - 1, 1):
        call, answered = await following.channel.next_call()
        assert (call.offset, following.lost.empty()) == (42, True)
        now_ms += later_ms
        answered.set_result(OUTDATED)
    lost = await asyncio.wait_for(following.lost.get(), 10)
    assert lost.seen == OffsetAndEpoch(41, 5)
    await following.follower.close()


async def test_a_snapshot_is_loaded_in_parts_and_replaces_what_was_known(
    following: Following,
) -> None:
    data = logged(0, FeatureRecord("metadata.version", 1), topic("a")) + logged(2, topic("b"))
    snapshot = SnapshotId(end_offset=50, epoch=7)
    await following.channel.answer(MetadataFetched(0, high_watermark=50, snapshot=snapshot))
    for start in (0, 60):
        request = await following.channel.answer(
            SnapshotFetched(0, size=len(data), position=start, data=data[start : start + 60])
        )
        assert request.position == start
        if start == 60:
            break
    rest = await following.channel.answer(
        SnapshotFetched(0, size=len(data), position=120, data=data[120:])
    )
    assert rest.position == 120
    request, _ = await following.channel.next_call()
    assert (request.offset, request.epoch) == (50, 7)
    assert following.published == [(True, [], 49)]


async def test_a_failed_call_is_made_again(following: Following) -> None:
    await following.channel.answer(ApiError(ErrorCode.NETWORK_EXCEPTION))
    assert await following.give(logged(0, topic("a")), 4) == (0, -1)


async def test_on_the_way_out_the_controller_hears_at_once_what_we_know(
    following: Following,
) -> None:
    await following.give(logged(0, *(topic(name) for name in "abcd")), 4)
    await following.follower.wait_until_caught_up()
    following.channel.lifecycle.on_stop_requested()
    await following.give(logged(4, topic("e")), 5)
    await following.channel.next_call()
    assert following.channel.pokes == 1
