"""Looks back in a source's log for plans that are over, whose records are to be forwarded again."""

import asyncio
from collections.abc import Iterable
from typing import Final

from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.messages.refire_forwarded import FROM_START
from ...protocol.records.batch_header import CONTROL_BIT, headers
from ...protocol.records.records import records
from ...protocol.types import Buffer
from ..partition.own_reading import behind_gap, read_own
from ..partition.partition import Partition
from .drafting import Outlook
from .lead import Wanted, again
from .parked import ParkedRecords
from .refiring import Found, Refire, Refired
from .steps import MOST_PLANNED, Kind, Plan, Step, decode

MOST_READS: Final = 64
"""The most reads of one request, of 64 KiB each; as many more may tell how plans have ended."""


async def find_plans(
    partition: Partition, asked: Refire, open_plans: Iterable[Plan]
) -> tuple[list[tuple[Plan, tuple[int, ...]]], Refired] | None:
    """Return plans of the log with the records to repeat of each, and how far it has looked.

    About MOST_PLANNED records are found at most. It looks further for how the plans have ended.
    None if the log cannot be read for now.
    """
    log_end = partition.high_watermark
    end = log_end if asked.end < 0 else min(asked.end, log_end)
    at = partition.log_start_offset if asked.position == FROM_START else asked.position
    found = Found(asked, open_plans)
    next_at = at
    for reads in range(2 * MOST_READS):
        is_asked = at < end and reads < MOST_READS and found.count < MOST_PLANNED
        if at >= log_end or (not is_asked and found.knows_all_ends):
            break
        data = await read_own(partition, at, log_end)
        if data is None:
            return None
        if not len(data):
            at = behind_gap(partition, at, log_end)
        for position, header in headers(data):
            is_asked = is_asked and header.base_offset < end and found.count < MOST_PLANNED
            if header.attributes & CONTROL_BIT and header.producer_id < 0:
                for step in _steps_in(data, position):
                    found.add(step, is_asked=is_asked)
            at = header.next_offset
            next_at = at if is_asked else next_at
        next_at = at if is_asked else next_at
        await asyncio.sleep(0)
    return found.delivered(), Refired(ErrorCode.NONE, 0, -1 if next_at >= end else next_at, end)


async def wanted_again(
    plans: Iterable[tuple[Plan, tuple[int, ...]]],
    parked: ParkedRecords,
    outlook: Outlook,
    image: MetadataImage,
) -> list[Wanted] | None:
    """Return what is to be planned: what the source has, for targets that are there and allowed.

    None if the records cannot be read for now.
    """
    wanted: list[Wanted] = []
    for plan, offsets in plans:
        topic = image.topics.get(plan.target.topic_id)
        if topic is None or not outlook.may_write(topic.name):
            continue
        there = await parked.present(offsets)
        if there is None:
            return None
        if there:
            wanted.append(again(plan, *there)._replace(kind=Kind.DUE, code=ErrorCode.NONE))
    return wanted


def _steps_in(data: Buffer, position: int) -> list[Step]:
    try:
        steps = [decode(record.key, record.value) for record in records(data, position)]
    except RemoteProtocolError:
        return []  # The fold has passed it over, too, and said so.
    return [step for step in steps if step is not None]
