"""Checks that bytes are the batches that were written, and finds the first faulty batch.

Pure: other modules read the bytes. The checksum covers a batch except for its base offset, length
and leader epoch; these three are checked against the neighbouring batches and the epoch history.
"""

import sys
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from ..protocol.records.record_batch import HEADER_SIZE, MAGIC
from ..protocol.types import Buffer
from .leader_epochs import LeaderEpochs

# base offset, batch length, leader epoch, magic, crc, attributes, last offset delta
_HEAD = Struct(">qiiBIhi")
_SIZE_AND_OFFSET = 12
_CRC_STARTS_AT = 21


class Rules(NamedTuple):
    """The facts about a log with which its batches must be consistent."""

    epochs: LeaderEpochs
    has_gaps: bool = False
    """True if compaction has removed offsets, so that batches need not follow each other
    directly."""


class Verdict(NamedTuple):
    """The result of checking some bytes: how many are good, and the fault of the next batch."""

    size: int
    """Bytes of good, whole batches at the front."""
    next_offset: int
    """The offset after the last good batch, at which the next batch should begin."""
    problem: str
    """The fault of the batch after the good ones; empty if there is none."""


def judge(
    data: Buffer,
    offset: int,
    rules: Rules,
    *,
    is_exact: bool = False,
    at_most: int = sys.maxsize,
) -> Verdict:
    """Check the batches in `data`, in order, up to the first faulty one.

    The first batch must hold `offset`, and must begin with it if `is_exact`; in a log with gaps it
    may also begin later. Batches after the first `at_most` are not checked.
    """
    view = memoryview(data)
    at, end, due, epoch = 0, len(view), offset, None
    unpack = _HEAD.unpack_from
    is_loose = not is_exact
    for _ in range(at_most):
        if at >= end:
            break
        if at + HEADER_SIZE > end:
            return Verdict(at, due, "half a header")
        base, length, its_epoch, magic, crc, _, delta = unpack(view, at)
        size = length + _SIZE_AND_OFFSET
        if magic != MAGIC or size < HEADER_SIZE or delta < 0:
            return Verdict(at, due, "no batch header")
        if at + size > end:
            return Verdict(at, due, f"a batch of {size} bytes is cut off")
        if crc32c(view[at + _CRC_STARTS_AT : at + size]) != crc:
            return Verdict(at, due, f"crc {crc:#010x} does not match")
        is_due = base == due or (is_loose and base < due <= base + delta)
        if not is_due and (not rules.has_gaps or base + delta < due):
            return Verdict(at, due, f"base offset {base} where {due} is due")
        if its_epoch != epoch:
            known = rules.epochs.epoch_for(base)
            if its_epoch != known >= 0:
                return Verdict(at, due, f"leader epoch {its_epoch} where {known} wrote")
            epoch = its_epoch
        is_loose = False
        due = base + delta + 1
        at += size
    return Verdict(at, due, "")


def size_of_first(data: Buffer) -> int:
    """Return the size in bytes stated by the first batch's header; 0 if it is incomplete."""
    if len(data) < HEADER_SIZE:
        return 0
    _, length, _, magic, _, _, _ = _HEAD.unpack_from(data)
    size = int(length) + _SIZE_AND_OFFSET
    return size if magic == MAGIC and size >= HEADER_SIZE else 0
