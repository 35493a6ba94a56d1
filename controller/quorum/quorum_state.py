"""The file `quorum-state`: epoch, vote, and the voters' disks, on stable storage before use.

{"leaderId":1,"leaderEpoch":7,"votedId":1,"clusterId":"...","data_version":1,
 "directoryIds":{"1":"..."},"crc":"..."}

There are two copies, and `quorum-state.copy` is written first. If one is damaged or cut short, the
other is whole and at least as new as every vote that was sent. `crc` is that of the text before it;
a file of an older release has none. If neither can be read, the vote is lost, and a node that may
have voted must not vote again: see `read_quorum_state`.
"""

import json
import logging
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from ...protocol.types import uuid_from_text, uuid_to_text
from ...runtime.errors import CorruptLog
from ...storage.files import Files

FILE_NAME: Final = "quorum-state"
COPY_NAME: Final = "quorum-state.copy"
_CRC: Final = b',"crc":"'

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The state that a node must keep over a restart."""

    cluster_id: str | None
    """The cluster's id; None until the node has learnt it."""
    epoch: int = 0
    leader_id: int = -1
    voted_id: int = -1
    directory_ids: tuple[tuple[int, bytes], ...] = ()
    """Voter ids, each with the directory id of the disk that the voter is known by."""
    recover_to: tuple[int, int] | None = None
    """Epoch and end of a log that was lost here after others counted on it; None if none was."""


def read_quorum_state(files: Files, directory: str, cluster_id: str | None) -> QuorumState | None:
    """Return the newest state in the two files, or a new node's state if there are no files.

    Return None if there are files but none can be read: the vote is lost. Raise CorruptLog if a
    file belongs to another cluster than `cluster_id`.
    """
    found: list[QuorumState] = []
    damaged = 0
    for name in (FILE_NAME, COPY_NAME):
        path = f"{directory}/{name}"
        data = files.read_small(path)
        if data is None:
            continue
        try:
            state = decode_state(data)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s cannot be read: %r", path, error)
            damaged += 1
            continue
        if None not in (cluster_id, state.cluster_id) and state.cluster_id != cluster_id:
            why = f"belongs to cluster {state.cluster_id}, not {cluster_id}"
            raise CorruptLog(path, 0, why)
        found.append(state)
    if not found:
        return None if damaged else QuorumState(cluster_id)
    return max(found, key=lambda s: (s.epoch, s.voted_id >= 0, len(s.directory_ids)))


def encode_state(state: QuorumState) -> bytes:
    """Encode the state as the text of the file."""
    plain = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_id,
        "clusterId": state.cluster_id or "",
        "data_version": 1,
        **({"recoverTo": state.recover_to} if state.recover_to is not None else {}),
        "directoryIds": {str(key): uuid_to_text(value) for key, value in state.directory_ids},
    }
    text = json.dumps(plain, separators=(",", ":")).encode()[:-1]
    return b'%s%s%08x"}' % (text, _CRC, crc32(text))


def decode_state(data: bytes) -> QuorumState:
    """Decode the file; raise ValueError, KeyError, TypeError or AttributeError if it is damaged."""
    plain = json.loads(data)
    text, mark, _ = data.rpartition(_CRC)
    if mark and int(plain["crc"], 16) != crc32(text):
        raise ValueError("its checksum does not match")
    recover_to = plain.get("recoverTo")
    return QuorumState(
        str(plain["clusterId"]) or None,
        int(plain["leaderEpoch"]),
        int(plain["leaderId"]),
        int(plain["votedId"]),
        tuple(
            sorted(
                (int(key), uuid_from_text(value))
                for key, value in plain.get("directoryIds", {}).items()
            )
        ),
        (int(recover_to[0]), int(recover_to[1])) if recover_to is not None else None,
    )


async def write_quorum_state(files: Files, directory: str, state: QuorumState) -> None:
    """Write the state twice; both copies are on stable storage on return."""
    data = encode_state(state)
    await files.replace_durably(f"{directory}/{COPY_NAME}", data)
    await files.replace_durably(f"{directory}/{FILE_NAME}", data)
