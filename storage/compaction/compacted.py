"""Finishes or undoes, before a log is opened, what a stopped compaction left behind.

A compaction writes its result as `.cleaned`, syncs it and renames it to `.swap`, which makes it
valid. Then the old segments that it replaces are deleted, and the `.swap` file is renamed to
`.log`. So after a stop

    .cleaned        is not finished, and is removed
    .deleted        is an old segment that Kafka replaced, and is removed
    .swap           replaces every segment whose base offset lies within it
    .swap at or after the first .cleaned
                    is one of several results that were not all finished, and is removed

After `settle` the log holds either all of the old segments or the whole new one.
"""

import logging
from contextlib import closing

from ...protocol.records.record_batch import HEADER_SIZE
from ..files import LOG, SEGMENT_SUFFIXES, Files, file_name, offset_in
from ..integrity import Rules, judge, size_of_first
from ..leader_epochs import LeaderEpochs

log = logging.getLogger(__name__)

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"


def settle(files: Files, directory: str) -> bool:
    """Finish or undo what a compaction began in `directory`; return True if anything changed."""
    names = files.names(directory)
    left = [name for name in names if name.endswith((CLEANED, SWAP, DELETED))]
    if not left:
        return False
    unfinished = [base for name in left if (base := offset_in(name, LOG + CLEANED)) is not None]
    results = [base for name in left if (base := offset_in(name, LOG + SWAP)) is not None]
    for name in left:
        if not name.endswith(LOG + SWAP):
            files.remove(f"{directory}/{name}")  # Indexes are made anew.
    for base in results:
        path = f"{directory}/{file_name(base, LOG)}"
        if unfinished and base >= min(unfinished):
            log.info("%s%s is one of several that were not finished: removed", path, SWAP)
            files.remove(path + SWAP)
            continue
        end = _end_of(files, path + SWAP, base)
        if end is None:
            log.error("%s%s is damaged: removed", path, SWAP)
            files.remove(path + SWAP)
            continue
        for name in names:
            old = offset_in(name, LOG)
            if old is not None and base < old < end:
                _remove_segment(files, directory, old)
        for suffix in SEGMENT_SUFFIXES[1:]:
            files.remove(f"{directory}/{file_name(base, suffix)}")
        files.rename(path + SWAP, path)
        log.info("%s is the result of a compaction that a stop interrupted", path)
    return True


def _remove_segment(files: Files, directory: str, base: int) -> None:
    for suffix in SEGMENT_SUFFIXES:
        files.remove(f"{directory}/{file_name(base, suffix)}")


def _end_of(files: Files, path: str, base_offset: int) -> int | None:
    """Return the offset after the last batch of a segment file; None if the file has any damage."""
    rules = Rules(LeaderEpochs(), has_gaps=True)
    with files.guard, closing(files.fs.open(path)) as file:
        size, at, offset = file.size(), 0, base_offset
        while at < size:
            head = files.read_some(file, at, HEADER_SIZE)
            batch = files.read_some(file, at, min(size_of_first(head), size - at))
            verdict = judge(batch, offset, rules)
            if verdict.problem or not verdict.size:
                return None
            at, offset = at + verdict.size, verdict.next_offset
    return offset
