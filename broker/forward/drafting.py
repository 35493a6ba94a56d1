"""Decides about records that are due: the batch into which each goes, or why it waits.

Pure. The target topic is looked up when a record is due, so that a change of the setting, and a
topic that was deleted and made again, count for everything that is not planned yet.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...protocol.control.image import Topic
from ...protocol.delays import AT_ONCE, HOPS_MAX, hops_of
from ...protocol.errors import ErrorCode
from ...protocol.expiry import TtlRule
from ...protocol.header_targets import is_allowed, target_of
from ...protocol.records.records import Record
from ...protocol.types import TopicIdPartition, TopicPartition
from ...storage.delay_config import DelayConfig
from ...storage.route_config import DEAD_LETTER, DEFAULT
from ...storage.topic_config import TopicConfig
from .due_index import Entry
from .emitting import partition_of, size_of
from .lead import Lead, Wanted, grouped, replace, without_deleted
from .shelves import Reason
from .steps import MOST_PLANNED, End, Kind, Plan
from .targets import GaveUp

UNROUTED: Final = ErrorCode.RESOURCE_NOT_FOUND
"""The error code of dead letters that no rule matches."""
MISSING: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
UNTARGETED: Final = ErrorCode.INVALID_TOPIC_EXCEPTION
"""The error code of dead letters that name no target, or one that they may not name."""
EXPIRED: Final = ErrorCode.REQUEST_TIMED_OUT
"""The error code of dead letters that have expired."""
_BY_HEADER: Final = TtlRule(by_header=True)
MOST_BYTES: Final = 512 << 10
"""The most bytes of records in one batch, unless one record is larger."""
BURIED_TOGETHER: Final = 20
"""The most dead letters of one batch, which may be as large as records can be."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The settings and topics that decide where a source partition's records go."""

    source: TopicPartition
    config: TopicConfig
    topic: Callable[[str], Topic | None]
    """Returns a topic by name, if it is there."""
    log_start: int = 0
    """The offset below which records are deleted."""
    moved: Mapping[int, int] = field(default_factory=dict)
    """The times of records whose times were changed, by offset."""
    may_write: Callable[[str], bool] = lambda _: True
    """True if records may be forwarded to the topic of this name now."""
    deleted: Container[int] = ()
    """Offsets of other records that are not in the log any more."""
    is_held: Callable[[Reason, bool], bool] = lambda _, several: False
    """Returns True if a record has to wait for a target partition, or for a topic by its name: its
    only one, or one of several."""
    most_bytes: Callable[[TopicIdPartition], int] = lambda _: MOST_BYTES
    """Returns the most bytes of records in one batch for a target partition."""

    def is_deleted(self, offset: int) -> bool:
        """True if the record at an offset is not in the log any more."""
        return offset < self.log_start or offset in self.deleted

    @property
    def dead_letters(self) -> Topic | None:
        """The topic for dead letters; None if there is none."""
        name = self.config.delay.dead_letters
        return self.topic(name) if name else None


@dataclass(slots=True)
class Draft:
    """The outcome of records that are due."""

    wanted: list[Wanted] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    """Offsets that nobody takes: the records are deleted, or there is no place for dead letters."""
    passed: list[int] = field(default_factory=list)
    """Offsets that go nowhere, as the rules say."""
    expired: list[int] = field(default_factory=list)
    """Offsets whose time to live is over; their owners say so, and nobody gets them."""
    waiting: dict[Reason, list[Entry]] = field(default_factory=dict)
    """The records that have to wait for their target, by what they wait for."""
    buried: dict[ErrorCode, list[int]] = field(default_factory=dict)
    """The offsets of dead letters."""

    def wait(self, reason: Reason, entry: Entry) -> None:
        """Let a record wait."""
        self.waiting.setdefault(reason, []).append(entry)

    def bury(self, entry: Entry, code: ErrorCode, outlook: Outlook) -> None:
        """Make a record a dead letter, unless it has to wait for that, too."""
        topic = outlook.dead_letters
        target = None if topic is None else _grave_in(topic, outlook)
        if target is not None and outlook.is_held(target, False):
            self.wait(target, entry)
        else:
            self.buried.setdefault(code, []).append(entry.offset)


def draft(
    due: Sequence[Entry], found: Mapping[int, Record], outlook: Outlook, wall_ms: int
) -> Draft:
    """Decide about records that are due, from those of them that are `found`, by offset."""
    made = Draft()
    config = outlook.config.delay
    placed: list[tuple[TopicIdPartition, int]] = []
    sizes: list[int] = []
    for entry in due:
        record = found.get(entry.offset)
        if record is None:
            made.dropped.append(entry.offset)
        elif _is_expired(entry, record, outlook, wall_ms):
            if config.buries_expired and outlook.dead_letters is not None:
                made.bury(entry, EXPIRED, outlook)
            else:
                made.expired.append(entry.offset)
        elif hops_of(record.headers) >= HOPS_MAX:
            made.bury(entry, ErrorCode.INVALID_RECORD, outlook)
        else:
            topics = _targets_of(entry, record, outlook, wall_ms, made)
            targets = [_partition_in(topic, record, outlook) for topic in topics]
            several = len(targets) > 1
            held = [each for each in targets if outlook.is_held(each, several)]
            if held:
                made.wait(held[0], entry)
                continue
            placed.extend((each, entry.offset) for each in targets)
            sizes.extend([size_of(record)] * len(targets))
    wanted = grouped(placed, MOST_PLANNED, sizes, outlook.most_bytes)
    for code, offsets in made.buried.items():
        _bury(made, offsets, code, outlook)
    moved = tuple(entry for entry in due if entry.offset in outlook.moved)
    made.wanted.extend(each._replace(moved=moved) for each in wanted)
    return made


def _targets_of(
    entry: Entry, record: Record, outlook: Outlook, wall_ms: int, made: Draft
) -> list[Topic]:
    """Return the topics to which a record goes now; a record that goes nowhere is in the draft.

    A record whose only target is not there, or is forbidden, waits for it. One that has others goes
    to those at once, and for what is missing it is a dead letter: if it waited, it would go to the
    others twice.
    """
    config = outlook.config
    routes = config.route.routes
    names: tuple[str, ...] = ()
    matched = None if routes is None else routes.of(record.key, record.headers)
    if matched is not None:
        names = matched
    elif routes is not None and config.route.unmatched == DEAD_LETTER:
        made.bury(entry, UNROUTED, outlook)
        return []
    elif config.delay.is_on and (routes is None or config.route.unmatched == DEFAULT):
        name = _target_of(record, config.delay)
        if name is None:
            made.bury(entry, UNTARGETED, outlook)
            return []
        names = (name,)
    if not names:
        made.passed.append(entry.offset)
        return []
    if len(names) == 1 and outlook.is_held(names[0], False):
        made.wait(names[0], entry)
        return []
    allowed = [name for name in names if outlook.may_write(name)]
    found = [topic for topic in map(outlook.topic, allowed) if topic is not None]
    if len(found) < len(names):
        is_denied = len(allowed) < len(names)
        since_ms = max(entry.due_ms, record.timestamp)
        if len(names) == 1 and wall_ms - since_ms < config.delay.undeliverable_ms:
            made.wait(names[0], entry)
        else:
            made.bury(entry, DENIED if is_denied else MISSING, outlook)
    return found


def _partition_in(topic: Topic, record: Record, outlook: Outlook) -> TopicIdPartition:
    count, config = len(topic.partitions), outlook.config.delay
    return TopicIdPartition(topic.topic_id, partition_of(record, outlook.source, count, config))


def _target_of(record: Record, config: DelayConfig) -> str | None:
    """Return the target of a record that no rule matches; None if it names none that it may."""
    if not config.names_target:
        return config.target
    name = target_of(record.headers)
    return name if name is not None and is_allowed(name, config.targets) else None


def replace_in(made: Draft, gave_up: Sequence[GaveUp], outlook: Outlook, lead: Lead) -> list[End]:
    """Add to a draft what takes the place of plans that were given up; return these plans' ends."""
    ends: list[End] = []
    for each in gave_up:
        instead = replace(each, has_dead_letters=outlook.dead_letters is not None)
        ends.extend(instead.ends)
        kept, deleted = without_deleted(instead.wanted, outlook.is_deleted)
        made.wanted[:0] = kept
        made.dropped.extend(deleted)
        _bury(made, instead.dead, each.code, outlook, each.plans)
        lead.give_up(each.plans[0].target, each.plans[0].producer_id)
    return ends


def _is_expired(entry: Entry, record: Record, outlook: Outlook, wall_ms: int) -> bool:
    """True if a record expired before it was planned; its time to live begins when it is due."""
    start_ms = entry.due_ms
    if start_ms == AT_ONCE:
        # One that somebody made due at once is due now; others were when they were written.
        start_ms = wall_ms if entry.offset in outlook.moved else record.timestamp
    return _BY_HEADER.expires_of(start_ms, record.headers) <= wall_ms


def _bury(
    made: Draft,
    offsets: Sequence[int],
    code: ErrorCode,
    outlook: Outlook,
    instead_of: Sequence[Plan] = (),
) -> None:
    topic = outlook.dead_letters
    if topic is None:
        made.dropped.extend(offsets)
        return
    target = _grave_in(topic, outlook)
    moved = [Entry(outlook.moved[each], each) for each in offsets if each in outlook.moved]
    moved.extend(entry for plan in instead_of for entry in plan.moved)
    since_ms = max((plan.planned_ms for plan in instead_of), default=0)
    for at in range(0, len(offsets), BURIED_TOGETHER):
        some = tuple(offsets[at : at + BURIED_TOGETHER])
        wanted = Wanted(target, Kind.DEAD_LETTER, some, code, tuple(moved), since_ms)
        made.wanted.append(wanted)


def _grave_in(topic: Topic, outlook: Outlook) -> TopicIdPartition:
    return TopicIdPartition(topic.topic_id, outlook.source.partition % len(topic.partitions))
