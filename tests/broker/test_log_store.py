"""Which log a partition gets of those in several data directories."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from minikafka.broker.partition.log_store import LogStore
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.runtime import SystemRuntime
from minikafka.storage.directory import LogDirectory
from tests.storage.support import batch, topic

NAME = TopicPartition("orders", 0)
OURS, OTHER = b"orders-topic-id!", b"another-topic-id"
Copy = tuple[bytes, Sequence[int]]
"""The topic id of a log, and the leader epochs of its records."""


async def left_by(runtime: SystemRuntime, root: Path, copies: dict[str, Copy]) -> None:
    """Fill each named directory with one log of the partition, as an earlier process left it."""
    for place, (topic_id, epochs) in copies.items():
        directory = await LogDirectory.open(runtime, str(root / place), node_id=1)
        log = directory.new_log(NAME, topic_id, topic())
        for offset, epoch in enumerate(epochs):
            log.append([batch(offset, epoch=epoch)])
        await directory.close()


@pytest.mark.parametrize(
    ("copies", "chosen", "end"),
    [
        ({"a": (OURS, [1]), "b": (OURS, [1, 1, 1])}, "b", 3),
        ({"a": (OURS, [1, 1, 1]), "b": (OURS, [1])}, "a", 3),
        ({"a": (OURS, [1, 1, 1]), "b": (OURS, [1, 2])}, "b", 2),
        ({"a": (OTHER, [1, 1, 1]), "b": (OURS, [1])}, "b", 1),
    ],
    ids=["the longer", "the longer is first", "the newer epoch", "the right topic"],
)
async def test_of_two_copies_the_one_that_holds_what_is_committed_is_taken(
    tmp_path: Path, copies: dict[str, Copy], chosen: str, end: int
) -> None:
    runtime = SystemRuntime("broker-1")
    for order in (("a", "b"), ("b", "a")):
        root = tmp_path / "-".join(order)
        await left_by(runtime, root, copies)
        directories = [
            await LogDirectory.open(runtime, str(root / place), node_id=1) for place in order
        ]
        store = LogStore(runtime, directories)
        await store.load(lambda name: topic())
        stored = store.claim(OURS, NAME, topic())
        assert stored is not None
        assert stored.directory.path == str(root / chosen)
        assert stored.log.log_end_offset == end
        (other,) = [each for each in directories if each is not stored.directory]
        names = runtime.fs.listdir(other.path)
        assert [name for name in names if name.endswith("-stray")], "put aside, not deleted"
        for directory in directories:
            await directory.close()
    runtime.close()
