"""The snapshot of a schedule as frames of a file: what was folded, and what waits.

Pure. A broker that starts reads the newest snapshot and folds what follows it in the log, instead
of all of it, with the same result. A snapshot holds nothing that is not committed. One of a log
that was replaced since is known by the leader epoch of its last batch (`SourceState.is_part_of`).

    head      ["head", version, rule, folded, epoch, lowest settled, prune_at]: the first frame
    settled   [number, bitmap], for `OffsetSet.put_block`
    waiting   the fields of one run of the index, for `DueIndex.add_packed`
    others    [kind, item...], at most ITEMS of them in a frame

Each frame is MessagePack.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgpack

from ...protocol.delays import DelayRule
from ...protocol.types import Buffer
from .due_index import DueIndex, Entry
from .folding import Keyed, SourceState
from .steps import plan_fields, plan_of

VERSION: Final = 1
ITEMS: Final = 500
"""The most items of a frame. A plan may have a thousand offsets."""


class OtherSnapshot(Exception):
    """Raised if a snapshot is of another version or rule, or cannot be read."""


def frames_of(
    state: SourceState, indexes: Iterable[DueIndex], taken: Sequence[Entry], rule: DelayRule
) -> Iterator[bytes]:
    """Return the frames of a snapshot; nothing in it must change until the last one is taken.

    `taken` are entries that wait and are in no index now.
    """
    settled = state.settled
    head = (VERSION, _said(rule), state.folded, state.epoch, settled.lowest, state.prune_at)
    yield _frame("head", head)
    for block in settled.blocks():
        yield _frame("settled", block)
    rest = DueIndex()
    rest.add(taken)
    for index in (*indexes, rest):
        yield from (_frame("waiting", run) for run in index.packed())
    yield from _frames("plans", map(plan_fields, state.plans.values()))
    yield from _frames("moved", state.moved.items())
    yield from _frames("cancelled", state.cancelled)
    for producer_id, entries in state.undecided.items():
        yield from _frames("open", ((producer_id, *entry) for entry in entries))
    for producer_id, keyed in state.undecided_keyed.items():
        yield from _frames("open keyed", ((producer_id, *each) for each in keyed))
    yield from _frames("newest", state.newest.items())


class Restoring:
    """A schedule that is put together from the frames of a snapshot."""

    def __init__(self, rule: DelayRule) -> None:
        self.state = SourceState()
        self.index = DueIndex()
        self._rule = rule
        self.is_whole = False
        """True from the head on: the file says itself where it ends."""

    def add(self, frame: Buffer) -> None:
        """Add the next frame; raise OtherSnapshot if it is of another version or rule."""
        try:
            kind, *fields = msgpack.unpackb(frame, strict_map_key=False)
            self._add(kind, fields)
        except (ValueError, TypeError, IndexError, msgpack.UnpackException) as error:
            raise OtherSnapshot(f"a frame that cannot be read: {error!r}") from error

    def _add(self, kind: str, fields: Sequence[Any]) -> None:
        state = self.state
        if not self.is_whole:
            self._begin(kind, fields)
            return
        match kind:
            case "settled":
                state.settled.put_block(*fields)
            case "waiting":
                self.index.add_packed(tuple(fields))
            case "plans":
                state.plans.update((plan.plan_id, plan) for plan in map(plan_of, fields))
            case "moved":
                state.moved.update(fields)
            case "cancelled":
                state.cancelled.update(dict.fromkeys(fields))
            case "open":
                for producer_id, *entry in fields:
                    state.undecided.setdefault(producer_id, []).append(Entry(*entry))
            case "open keyed":
                for producer_id, *each in fields:
                    state.undecided_keyed.setdefault(producer_id, []).append(Keyed(*each))
            case "newest":
                state.newest.update(fields)
            case _:
                raise ValueError(kind)

    def _begin(self, kind: str, fields: Sequence[Any]) -> None:
        if kind != "head" or fields[0] != VERSION:
            raise OtherSnapshot("a snapshot of another version")
        _, rule, folded, epoch, lowest, prune_at = fields
        if rule != _said(self._rule):
            raise OtherSnapshot("a snapshot of other settings")
        self.is_whole = True
        self.state = SourceState(lowest)
        self.state.folded, self.state.epoch, self.state.prune_at = folded, epoch, prune_at


def _said(rule: DelayRule) -> list[object]:
    """Return what decides when a record is due, and which takes the place of another one."""
    return [rule.by, rule.delay_ms, rule.replaces]


def _frames(kind: str, items: Iterable[object]) -> Iterator[bytes]:
    iterator = iter(items)
    while some := tuple(islice(iterator, ITEMS)):
        yield _frame(kind, some)


def _frame(kind: str, fields: Iterable[object]) -> bytes:
    packed: bytes = msgpack.packb((kind, *fields))
    return packed
