"""Carries out the decisions (effects) of a partition's leader, in their order.

`replica.leader` makes the decisions. Those of a follower are carried out by
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
    """Carry out the leader's effects; if the disk fails, end the role and skip the others."""
    for effect in effects:
        match effect:
            case HighWatermarkAdvanced(offset):
                traced = partition.traced
                if traced is not None and offset > traced.awaited:
                    traced.on_committed(offset)
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
