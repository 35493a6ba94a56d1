"""Keeps the records of a key in order while one of them is tried again: whose turn it is.

Pure. A key is blocked from the first failure of one of its records until every record of it that
was moved has come to its end. Records of a blocked key are moved behind those before them, without
being handled. Each says which record it is and which one it follows, so that it does not matter in
which order they come back: a record has its turn once the one it follows is done.

    free      a record fails             blocked: this one is outstanding
    blocked   a new record of the key    it follows the newest one
    blocked   one comes back, its turn   handled: it fails, or is done; after the newest: free
    blocked   one comes back too early   it is moved once more

All records that can meet are in one lane: partition n of each topic that the group reads, and of
those between which records are moved.
"""

import hashlib
from collections.abc import Mapping
from enum import Enum, auto
from typing import Final, NamedTuple, Self

from ...protocol.records.record_batch import Headers
from ..records import ConsumerRecord
from .retry_headers import ORDER, due_of

Raw = ConsumerRecord[bytes, bytes]
EARLY_MS: Final = 1_000
"""How long a record waits that has come back too early, and finds its key due."""
GONE_MS: Final = 300_000
"""How long the first record that waits for another one does so, once that one is due. It comes back
again and again, and the other one would have come back before it: somebody has cancelled it, or the
broker has buried it. A record that comes so much later does not wait."""
_KEY_BYTES: Final = 16


class Place(NamedTuple):
    """The place of a record in the order of its key."""

    topic: str
    offset: int
    behind: int
    """The offset of the record that it follows; the one before it, if it follows none."""

    def to_header(self) -> str:
        """Return the text that a moved record carries."""
        return f"{self.topic}/{self.offset}/{self.behind}"

    @classmethod
    def of(cls, headers: Headers) -> Self | None:
        """Read what `to_header` returned; None if it is not there, or something else."""
        for name, value in headers:
            if name == ORDER and value is not None:
                topic, offset, behind = (*value.decode(errors="replace").split("/"), "", "")[:3]
                if topic and _is_number(offset) and _is_number(behind.removeprefix("-")):
                    return cls(topic, int(offset), int(behind))
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


class Blocked(NamedTuple):
    """A key of which records are outstanding."""

    done: int
    """The offset up to which the key's records are done."""
    newest: int
    """The offset of the newest record that was moved."""
    due_ms: int
    """When the record is due whose turn it is."""
    head: int
    """The offset of that record."""

    def to_value(self) -> bytes:
        """Return what the group's topic of blocked keys holds."""
        return "/".join(map(str, self)).encode()

    @classmethod
    def of(cls, value: bytes) -> Self:
        """Read what `to_value` returned; raise ValueError for anything else."""
        done, newest, due_ms, head = map(int, value.decode().split("/"))
        return cls(done, newest, due_ms, head)


class Outcome(Enum):
    """The fate of a record."""

    DONE = auto()
    """It was handled, or is a dead letter."""
    FAILED = auto()
    """It waits for its next attempt."""
    BEHIND = auto()
    """It waits for its turn, without having been handled."""


Name = tuple[int, bytes]
"""A key: its lane, and 16 bytes that stand for its topic and itself."""
Changes = dict[Name, Blocked | None]
"""Keys that change; None for one that is free."""


class _FirstWaits(NamedTuple):
    """The first record of a key that has come back too early."""

    offset: int
    since_ms: int
    """Since when it waits though the other one is due."""
    seen_ms: int


class KeyOrder:
    """The blocked keys of the lanes that a member reads."""

    def __init__(self, returning: str, max_keys: int) -> None:
        """`returning` is the topic by which records come back."""
        self.lanes: dict[int, dict[bytes, Blocked]] = {}
        self._returning = returning
        self._max_keys = max_keys
        self._first_waits: dict[Name, _FirstWaits] = {}

    def begin(self, lane: int, keys: Mapping[bytes, Blocked]) -> None:
        """Take over a lane with the keys that are blocked in it."""
        self.lanes[lane] = {**keys}

    def forget(self) -> None:
        """Give up all lanes."""
        self.lanes = {}
        self._first_waits = {}

    def place_of(self, record: Raw, draft: Changes) -> Place | None:
        """Return the place of a record, after the changes of `draft`; None if it has none.

        It has none without a key, and if it was sent to the topic of returning records by others:
        a dead letter that is handled again is out of order anyway.
        """
        if record.key is None:
            return None
        if record.topic == self._returning:
            return Place.of(record.headers)
        blocked = self._find(_name(record, record.topic), draft)
        behind = record.offset - 1 if blocked is None else blocked.newest
        return Place(record.topic, record.offset, behind)

    def waits_until(self, record: Raw, place: Place, draft: Changes, now_ms: int) -> int | None:
        """Return when a record is due that must not be handled now; None if it is its turn."""
        name = _name(record, place.topic)
        blocked = self._find(name, draft)
        if blocked is None:
            return None
        if record.topic != self._returning:
            return max(blocked.due_ms, now_ms)
        if blocked.done >= place.behind or self._is_gone(record, place, blocked, now_ms):
            return None
        return max(blocked.due_ms, now_ms + EARLY_MS)

    def has_room(self, record: Raw, place: Place, draft: Changes) -> bool:
        """Return whether the key of a record may be blocked: it is, or not too many are."""
        if self._find(_name(record, place.topic), draft) is not None:
            return True
        count = sum(map(len, self.lanes.values()))
        return count + sum(each is not None for each in draft.values()) < self._max_keys

    def note(
        self, changes: Changes, record: Raw, place: Place, outcome: Outcome, due_ms: int
    ) -> None:
        """Add to `changes` what becomes of a key by a record's fate."""
        name = _name(record, place.topic)
        blocked = self._find(name, changes)
        after = _after(blocked, place, outcome, due_ms)
        if after != blocked:
            changes[name] = after

    def adopt(self, changes: Changes) -> None:
        """Make changes that are committed."""
        for name, blocked in changes.items():
            lane, key = name
            before = self.lanes[lane].pop(key, None)
            if blocked is not None:
                self.lanes[lane][key] = blocked
            if blocked is None or before is None or blocked.done > before.done:
                self._first_waits.pop(name, None)

    def _find(self, name: Name, draft: Changes) -> Blocked | None:
        lane, key = name
        return draft[name] if name in draft else self.lanes[lane].get(key)

    def _is_gone(self, record: Raw, place: Place, blocked: Blocked, now_ms: int) -> bool:
        """True if the one that a record follows will not come back.

        What is due first comes back first, however late the lane is read. So it counts when this
        record was due, not when it is read. The one that follows the record whose turn it is waits
        since that is due, and no other one is before it; else it waits since it was seen.
        """
        name, at_ms = _name(record, place.topic), min(due_of(record.headers), now_ms)
        first, since_ms = self._first_waits.get(name), blocked.due_ms
        if place.behind != blocked.head:
            is_second = first is not None and place.offset > first.offset
            if first is not None and is_second and at_ms - first.seen_ms < GONE_MS:
                return False
            is_same = first is not None and place.offset == first.offset
            since_ms = max(since_ms, first.since_ms if first is not None and is_same else now_ms)
        self._first_waits[name] = _FirstWaits(place.offset, since_ms, now_ms)
        return at_ms - since_ms >= GONE_MS


def _after(blocked: Blocked | None, place: Place, outcome: Outcome, due_ms: int) -> Blocked | None:
    match outcome:
        case Outcome.DONE:
            if blocked is None or place.offset >= blocked.newest:
                return None
            return blocked._replace(done=max(blocked.done, place.offset))
        case Outcome.FAILED if blocked is not None:
            newest = max(blocked.newest, place.offset)
            return Blocked(max(blocked.done, place.behind), newest, due_ms, place.offset)
        case Outcome.BEHIND if blocked is not None:
            return blocked._replace(newest=max(blocked.newest, place.offset))
        case _:
            return Blocked(place.behind, place.offset, due_ms, place.offset)


def _name(record: Raw, topic: str) -> Name:
    digest = hashlib.blake2b(record.key or b"", digest_size=_KEY_BYTES, person=_person(topic))
    return record.partition, digest.digest()


def _person(topic: str) -> bytes:
    return hashlib.blake2b(topic.encode(), digest_size=16).digest()
