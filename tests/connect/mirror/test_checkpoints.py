"""Checkpoints: when a new one is due, and what may be committed of them."""

from minikafka.client.group_types import OffsetAndMetadata
from minikafka.connect.mirror.checkpoints import CheckpointStore, offsets_to_commit
from minikafka.connect.mirror.codec import Checkpoint, OffsetSync
from minikafka.connect.mirror.translation import OffsetSyncStore
from minikafka.protocol.types import TopicPartition

HERE, THERE = TopicPartition("t", 0), TopicPartition("A.t", 0)


class Group:
    def __init__(self) -> None:
        self.syncs = OffsetSyncStore()
        self.store = CheckpointStore()

    def sync(self, upstream: int, downstream: int) -> None:
        self.syncs.add(OffsetSync(HERE, upstream, downstream))

    def at(self, offset: int, text: str = "") -> list[tuple[int, int]]:
        committed = {HERE: OffsetAndMetadata(offset, text)}
        fresh = self.store.advance("g", committed, self.syncs, lambda topic: f"A.{topic}")
        return [(each.upstream, each.downstream) for each in fresh]


def test_a_group_has_no_checkpoint_before_the_first_sync() -> None:
    group = Group()
    assert group.at(5) == []
    group.sync(10, 0)
    assert group.at(5) == []
    assert group.at(10, "note") == [(10, 0)]
    assert group.store.of("g") == {THERE: Checkpoint("g", THERE, 10, 0, "note")}
    assert group.store.of("other") == {}


def test_a_checkpoint_goes_back_only_with_its_group() -> None:
    group = Group()
    group.sync(10, 0)
    group.sync(20, 10)
    assert group.at(20) == [(20, 10)]
    assert group.at(20) == []
    group.syncs = OffsetSyncStore()
    group.sync(5, 4)
    group.sync(40, 30)
    assert group.at(25) == []  # only less is known than before
    assert group.at(15) == [(15, 5)]  # the group was set back


def test_a_checkpoint_beyond_all_that_is_mirrored_is_of_a_topic_that_is_gone() -> None:
    group = Group()
    group.sync(100, 100)
    assert group.at(101) == [(101, 101)]
    group.sync(120, 0)  # the topic at the target was made anew
    assert group.at(121) == [(121, 1)]
    assert group.at(121) == []


def test_only_what_is_ahead_and_within_the_partition_is_committed() -> None:
    topics = ["new", "behind", "ahead", "beyond", "gone"]
    places = {name: TopicPartition(name, 0) for name in topics}
    known = {at: Checkpoint("g", at, 0, 50, "m") for at in places.values()}
    committed = {places["behind"]: OffsetAndMetadata(49), places["ahead"]: OffsetAndMetadata(50)}
    ends = {at: 50 for name, at in places.items() if name != "gone"} | {places["beyond"]: 49}
    assert offsets_to_commit(known, committed, ends) == {
        places["new"]: OffsetAndMetadata(50, "m"),
        places["behind"]: OffsetAndMetadata(50, "m"),
    }
