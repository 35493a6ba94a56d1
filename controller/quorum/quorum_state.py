"""The file `quorum-state`: which controller epoch this node is in, stable before it is used.

{"leaderId":1,"leaderEpoch":7,"votedId":1,"clusterId":"...","data_version":1}
"""

import json
from dataclasses import dataclass
from typing import Final

from ...runtime.errors import CorruptLog
from ...storage.files import Files

FILE_NAME: Final = "quorum-state"


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What a node must not forget over a restart."""

    cluster_id: str
    epoch: int = 0
    leader_id: int = -1
    voted_id: int = -1


def read_quorum_state(files: Files, directory: str, cluster_id: str) -> QuorumState:
    """The state in the file, or that of a new node; CorruptLog if it cannot be read."""
    path = f"{directory}/{FILE_NAME}"
    data = files.read_small(path)
    if data is None:
        return QuorumState(cluster_id)
    try:
        plain = json.loads(data)
        state = QuorumState(
            str(plain["clusterId"]),
            int(plain["leaderEpoch"]),
            int(plain["leaderId"]),
            int(plain["votedId"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLog(path, 0, f"not a quorum state: {error!r}") from error
    if state.cluster_id != cluster_id:
        raise CorruptLog(path, 0, f"belongs to cluster {state.cluster_id}, not {cluster_id}")
    return state


async def write_quorum_state(files: Files, directory: str, state: QuorumState) -> None:
    """On stable storage when this returns."""
    plain = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_id,
        "clusterId": state.cluster_id,
        "data_version": 1,
    }
    data = json.dumps(plain, separators=(",", ":")).encode()
    await files.replace_durably(f"{directory}/{FILE_NAME}", data)
