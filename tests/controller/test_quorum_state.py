"""What a voter remembers, and what becomes of it when its files are damaged."""

from pathlib import Path

import pytest

from minikafka.controller.quorum.quorum_state import (
    COPY_NAME,
    FILE_NAME,
    QuorumState,
    decode_state,
    encode_state,
    read_quorum_state,
    write_quorum_state,
)
from minikafka.runtime.errors import CorruptLog
from minikafka.runtime.fs import OsFileSystem
from minikafka.storage.files import Files

OLD = b'{"leaderId":1,"leaderEpoch":7,"votedId":1,"clusterId":"c","data_version":1}'
STATE = QuorumState("c", 8, 2, 3, ((1, b"1" * 16), (2, b"2" * 16)), (5, 60))


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(OsFileSystem(), str(tmp_path))


def test_a_state_is_read_as_it_was_written() -> None:
    assert decode_state(encode_state(STATE)) == STATE
    assert decode_state(encode_state(QuorumState(None))) == QuorumState(None)


def test_the_file_of_an_older_release_is_read() -> None:
    assert decode_state(OLD) == QuorumState("c", 7, 1, 1)


def test_no_damage_to_a_file_is_taken_for_a_state() -> None:
    data = encode_state(STATE)
    for place in range(len(data)):
        for damaged in (data[:place], data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]):
            try:
                assert decode_state(damaged) == STATE
            except (ValueError, KeyError, TypeError, AttributeError):
                continue


async def test_either_file_makes_up_for_the_other(files: Files, tmp_path: Path) -> None:
    await write_quorum_state(files, str(tmp_path), STATE)
    whole = (tmp_path / FILE_NAME).read_bytes()
    for name in (FILE_NAME, COPY_NAME):
        (tmp_path / name).write_bytes(whole[:40])
        assert read_quorum_state(files, str(tmp_path), "c") == STATE
        (tmp_path / name).write_bytes(whole)


async def test_the_newer_of_two_files_counts(files: Files, tmp_path: Path) -> None:
    """A crash between the two writes: the second one was not written."""
    (tmp_path / FILE_NAME).write_bytes(OLD)
    (tmp_path / COPY_NAME).write_bytes(encode_state(STATE))
    assert read_quorum_state(files, str(tmp_path), "c") == STATE


async def test_with_both_damaged_nothing_is_known(files: Files, tmp_path: Path) -> None:
    for name in (FILE_NAME, COPY_NAME):
        (tmp_path / name).write_bytes(b"{")
    assert read_quorum_state(files, str(tmp_path), "c") is None


async def test_a_new_node_and_a_stranger(files: Files, tmp_path: Path) -> None:
    assert read_quorum_state(files, str(tmp_path), "c") == QuorumState("c")
    await write_quorum_state(files, str(tmp_path), STATE)
    with pytest.raises(CorruptLog, match="belongs to cluster"):
        read_quorum_state(files, str(tmp_path), "other")
