"""Carries out what a leader decides, in the order in which it was decided.

The decisions are `replica.leader`'s. What a follower decides is carried out by
`replication.following`.
"""

import logging
from typing import TYPE_CHECKING, assert_never

from ...runtime.errors import StorageError
from ..replica.leader import Effects, EpochStarted, HighWatermarkAdvanced, IsrChanged, ProposeIsr

if TYPE_CHECKING:
    from .partition import Partition

log = logging.getLogger(__name__)


def carry_out(partition: "Partition", effects: Effects) -> None:
    """Carry out the leader's decisions; a failing disk ends the role, and the rest with it."""
    for effect in effects:
        match effect:
            case HighWatermarkAdvanced(offset):
                partition.on_high_watermark_moved(offset)
            case ProposeIsr():
                partition.host.propose(partition, effect)
            case IsrChanged(isr):
                log.info("%r: isr is %s", partition, list(isr))
                partition.data_waiters.note_followers(partition)
            case EpochStarted(epoch, start_offset):
                log.info("%r: leading epoch %d from offset %d", partition, epoch, start_offset)
                try:
                    partition.log.assign_epoch(epoch, start_offset)
                except StorageError as error:
                    partition.on_storage_error(error)
                    return
            case _:
                assert_never(effect)
