"""How far the metadata was followed, over restarts: what is kept, and what is not believed."""

from pathlib import Path

import pytest

from minikafka.broker.control.metadata_position import (
    FILE_NAME,
    MetadataPosition,
    decode_position,
    encode_position,
)
from minikafka.protocol.types import OffsetAndEpoch
from minikafka.runtime.runtime import SystemRuntime
from minikafka.storage.directory import LogDirectory

SEEN = OffsetAndEpoch(239, 7)


async def opened(path: Path) -> LogDirectory:
    return await LogDirectory.open(SystemRuntime(), str(path), node_id=1, cluster_id=None)


async def test_it_is_kept_in_every_directory_and_the_newest_counts(tmp_path: Path) -> None:
    directories = [await opened(tmp_path / name) for name in "ab"]
    position = MetadataPosition(lambda: directories)
    assert position.seen is None
    position.seen = SEEN
    await position.save()
    older = encode_position(OffsetAndEpoch(300, 6))
    (tmp_path / "a" / FILE_NAME).write_bytes(older)
    assert MetadataPosition(lambda: directories).seen == SEEN
    for directory in directories:
        directory.abandon()


async def test_what_an_operator_gives_up_counts_as_none(tmp_path: Path) -> None:
    directory = await opened(tmp_path)
    position = MetadataPosition(lambda: [directory])
    position.seen = SEEN
    await position.save()
    assert MetadataPosition(lambda: [directory], given_up_at=238).seen == SEEN
    assert MetadataPosition(lambda: [directory], given_up_at=239).seen is None
    directory.abandon()


@pytest.mark.parametrize("bit", range(8))
def test_no_wrong_bit_makes_another_position(bit: int) -> None:
    data = encode_position(SEEN)
    assert decode_position(data) == SEEN
    for place in range(len(data)):
        wrong = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        assert decode_position(wrong) is None
        assert decode_position(data[:place]) is None
