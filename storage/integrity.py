"""Judges whether bytes are the batches that were written, and finds the bounds of damage.

Pure: other modules read the bytes. The checksum covers all of a batch but its base offset, length
and leader epoch; those are judged by the batches around it and the history of epochs.
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
    """The facts about a log that its batches must agree with."""

    epochs: LeaderEpochs
    has_gaps: bool = False
    """Compaction has taken offsets away."""


class Verdict(NamedTuple):
    """The judgement of some bytes: how many of them are good, and why it ends there."""

    size: int
    """Bytes of good, whole batches."""
    next_offset: int
    """Offset that is due after them."""
    problem: str
    """The fault of the batch behind the good ones; empty if there is none."""


def judge(
    data: Buffer,
    offset: int,
    rules: Rules,
    *,
    is_exact: bool = False,
    at_most: int = sys.maxsize,
) -> Verdict:
    """Check batch by batch; the first holds `offset`, or begins with it if `is_exact`.

    After `at_most` batches the rest is left unjudged.
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
    """Return the size that the first batch's header states; 0 if there is no such header."""
    if len(data) < HEADER_SIZE:
        return 0
    _, length, _, magic, _, _, _ = _HEAD.unpack_from(data)
    size = int(length) + _SIZE_AND_OFFSET
    return size if magic == MAGIC and size >= HEADER_SIZE else 0
