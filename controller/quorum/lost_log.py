"""Opens the metadata log; if stable records are damaged, the log is fetched anew from other voters.

A damaged log is never cut like a torn tail. A sole voter does not start, because its records are on
its own disk alone. One of several voters first saves in its quorum-state how far the log had
reached, because others have counted on those records. Then it renames the damaged files.
"""

import logging
from dataclasses import replace
from typing import Final

from ...runtime.errors import CorruptLog
from ...runtime.runtime import Runtime
from ...storage.files import LOG, Files, offset_in
from .log_damage import DamagedLog
from .log_facts import LogEnd
from .metadata_log import MetadataLog, directory_in
from .quorum_state import QuorumState, read_quorum_state, write_quorum_state
from .stable_end import StableEnd

log = logging.getLogger(__name__)
CUT_AT: Final = "minikafka.metadata.log.cut.at"


async def open_metadata_log(
    runtime: Runtime,
    files: Files,
    *,
    is_alone: bool,
    cluster_id: str | None = None,
    cut_at: int = -1,
) -> MetadataLog:
    """Open the log. Raise CorruptLog if it is damaged and no other voter can have the lost records.

    An operator gives up a sole voter's lost records by naming their first offset, `cut_at`. It is
    -1 if no records are given up.
    """
    try:
        return await MetadataLog.open(runtime, files, cut_at=cut_at if is_alone else -1)
    except DamagedLog as damage:
        if is_alone:
            lost = f"offsets {damage.offset} to {damage.end.offset - 1} cannot be read"
            why = f"{damage.why}: {lost}, which were on disk before; restore the directory from a"
            why = f"{why} backup, or give them up with {CUT_AT}={damage.offset}"
            raise CorruptLog(damage.path, damage.position, why) from damage
        await _give_up(runtime, files, damage, cluster_id)
        return await MetadataLog.open(runtime, files)


async def _give_up(
    runtime: Runtime, files: Files, damage: DamagedLog, cluster_id: str | None
) -> None:
    """Save in the quorum-state how far the damaged log had reached, then rename its files.

    Raise CorruptLog if the quorum-state is lost too.
    """
    directory = directory_in(files)
    state = read_quorum_state(files, directory, cluster_id)
    if state is None or state == QuorumState(cluster_id):
        why = f"{damage.why}, and the quorum-state is lost too: give this controller an empty"
        why = f"{why} directory, and have the others readmit it"
        raise CorruptLog(damage.path, damage.position, why) from damage
    end = damage.end
    if state.recover_to is not None:
        end = max(end, LogEnd(*state.recover_to))
    # Before the log is renamed: after a crash in between, it must not look like a new log.
    state = replace(state, epoch=max(state.epoch, end.epoch), recover_to=(end.epoch, end.offset))
    await write_quorum_state(Files(runtime.fs, files.root), directory, state)
    log.error("%s: set aside, and fetched anew from the other controllers", damage)
    for name in files.names(directory):
        if offset_in(name, LOG) is not None:
            files.rename(f"{directory}/{name}", f"{directory}/{name}.damaged")
    await files.fsync_directory(directory)
    noted = StableEnd(files, directory)
    noted.note_at_once(LogEnd(-1, 0))
    noted.close()
