"""The rules of `reassign-partitions`: proposals, throttled replicas, and Kafka's texts.

    Placement    topic and partition -> brokers, preferred leader first

A proposal leaves as many replicas where they are as an even result allows, and moves the rest to
the brokers with the fewest. It puts a partition's replicas on different racks, and spreads the
preferred leaders evenly.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ..admin.log_types import TopicPartitionReplica
from ..admin.topic_types import Reassignment
from ..partitions import name_of
from .directory_moves import ANY_DIRECTORY, Paths
from .json_files import entries, topic_partitions

Placement = Mapping[TopicPartition, Sequence[int]]
Moving = Mapping[TopicPartition, Reassignment]

OPTION = "--reassignment-json-file"
LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
THROTTLE_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def to_json(placement: Placement, paths: Paths | None = None) -> str:
    """Return the placement as the JSON text that --execute reads.

    The text names the directories in `paths`; the brokers choose all other directories.
    """
    known = paths or {}
    partitions = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
            "log_dirs": [
                known.get(TopicPartitionReplica(*partition, broker), ANY_DIRECTORY)
                for broker in replicas
            ],
        }
        for partition, replicas in sorted(placement.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"))


def from_json(found: dict[str, Any]) -> dict[TopicPartition, tuple[int, ...]]:
    """Read the JSON object of --execute; raise ConfigError if it is no valid placement."""
    placement: dict[TopicPartition, tuple[int, ...]] = {}
    listed = entries(found, "partitions", OPTION)
    for partition, entry in zip(topic_partitions(found, OPTION), listed, strict=True):
        replicas = entry.get("replicas")
        if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
            raise ConfigError(OPTION, json.dumps(entry), 'needs brokers in "replicas"')
        if len(dict.fromkeys(replicas)) < len(replicas):
            raise ConfigError(OPTION, json.dumps(entry), "names a broker twice")
        if partition in placement:
            raise ConfigError(OPTION, json.dumps(entry), "names a partition a second time")
        placement[partition] = tuple(replicas)
    return placement


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


# -- proposals


@dataclass(slots=True)
class _Room:
    """The number of replicas that each broker has so far, and the number it may get."""

    loads: dict[int, int]
    share: int
    """The number of replicas that every broker gets."""
    extra: int
    """The number of brokers that get one replica more than `share`."""
    leads: dict[int, int] = field(default_factory=dict)

    def has(self, broker: int) -> bool:
        load = self.loads[broker]
        return load < self.share or (load == self.share and self.extra > 0)

    def take(self, broker: int) -> None:
        self.extra -= self.loads[broker] == self.share
        self.loads[broker] += 1


def propose(current: Placement, racks: Mapping[int, str | None]) -> Placement:
    """Spread these partitions evenly over the brokers of `racks`, with as few moves as possible.

    Racks are ignored if every rack is None. Raise ConfigError if there are too few brokers.
    """
    copies = sum(len(replicas) for replicas in current.values())
    most = max((len(replicas) for replicas in current.values()), default=0)
    if most > len(racks):
        why = f"replication factor {most} is larger than the number of brokers, {len(racks)}"
        raise ConfigError("--broker-list", ",".join(map(str, racks)), why)
    brokers = sorted(racks)
    share, extra = divmod(copies, len(brokers)) if brokers else (0, 0)
    room = _Room(dict.fromkeys(brokers, 0), share, extra, dict.fromkeys(brokers, 0))
    kept = {p: _kept(replicas, racks, room) for p, replicas in sorted(current.items())}
    placed = {p: _filled(stay, len(current[p]), racks, room) for p, stay in kept.items()}
    while _even_out(placed, current, racks, room.loads):
        pass
    return {partition: _led(replicas, room) for partition, replicas in placed.items()}


def _kept(replicas: Sequence[int], racks: Mapping[int, str | None], room: _Room) -> list[int]:
    kept: list[int] = []
    for broker in replicas:
        if broker in racks and room.has(broker) and not _shares_rack(broker, kept, racks):
            room.take(broker)
            kept.append(broker)
    return kept


def _shares_rack(broker: int, others: Sequence[int], racks: Mapping[int, str | None]) -> bool:
    """True if the broker's rack already has one of the `others`, while another rack has none."""
    rack = racks[broker]
    if rack is None:
        return False
    used = dict.fromkeys(racks[other] for other in others)
    return rack in used and len(used) < len(dict.fromkeys(racks.values()))


def _filled(kept: list[int], count: int, racks: Mapping[int, str | None], room: _Room) -> list[int]:
    chosen = list(kept)
    while len(chosen) < count:
        free = [broker for broker in room.loads if broker not in chosen]
        broker = min(
            free,
            key=lambda one: (
                _shares_rack(one, chosen, racks),
                not room.has(one),
                room.loads[one],
                one,
            ),
        )
        room.take(broker)
        chosen.append(broker)
    return chosen


def _even_out(
    placed: dict[TopicPartition, list[int]],
    current: Placement,
    racks: Mapping[int, str | None],
    loads: dict[int, int],
) -> bool:
    """Move one replica from a broker with too many to a broker with too few.

    A replica that the proposal moves anyway is preferred. Return False if none can move.
    """
    by_load = sorted(loads, key=lambda broker: (loads[broker], broker))
    for high in reversed(by_load):
        for low in by_load:
            if loads[high] - loads[low] < 2:
                break
            movable = [
                partition
                for partition, replicas in placed.items()
                if high in replicas and low not in replicas
                if racks[high] == racks[low]
                or not _shares_rack(low, [one for one in replicas if one != high], racks)
            ]
            if movable:
                chosen = min(movable, key=lambda one: (high in current[one], one))
                replicas = placed[chosen]
                replicas[replicas.index(high)] = low
                loads[high], loads[low] = loads[high] - 1, loads[low] + 1
                return True
    return False


def _led(replicas: list[int], room: _Room) -> tuple[int, ...]:
    """Put the broker with the fewest preferred leaders first; on a tie, the former leader."""
    leader = min(replicas, key=lambda broker: (room.leads[broker], replicas.index(broker)))
    room.leads[leader] += 1
    return (leader, *(broker for broker in replicas if broker != leader))


# -- throttles


@dataclass(frozen=True, slots=True)
class Move:
    """The brokers that a partition is copied from, and those it is copied to."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]


def moves_of(moving: Moving, current: Placement, target: Placement) -> dict[TopicPartition, Move]:
    """Return the moves under way, and those that `target` adds."""
    moves = {
        partition: Move(
            tuple(broker for broker in one.replicas if broker not in one.adding), one.adding
        )
        for partition, one in moving.items()
    }
    for partition, replicas in target.items():
        before = moves.get(partition, Move((), ()))
        sources = before.sources or tuple(current[partition])
        new = tuple(broker for broker in replicas if broker not in sources)
        moves[partition] = Move(sources, tuple(dict.fromkeys((*before.destinations, *new))))
    return moves


def throttled_replicas(moves: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """Return each topic's two settings of throttled replicas, as `partition:broker,...`."""
    found: dict[str, dict[str, list[str]]] = {}
    for (topic, index), move in sorted(moves.items()):
        keys = found.setdefault(topic, {LEADER_REPLICAS: [], FOLLOWER_REPLICAS: []})
        keys[LEADER_REPLICAS] += [f"{index}:{broker}" for broker in sorted(move.sources)]
        keys[FOLLOWER_REPLICAS] += [f"{index}:{broker}" for broker in sorted(move.destinations)]
    return {
        topic: {key: ",".join(replicas) for key, replicas in keys.items()}
        for topic, keys in found.items()
    }


def brokers_of(moves: Mapping[TopicPartition, Move]) -> list[int]:
    """Return every broker that a partition is copied from or to."""
    each = (broker for one in moves.values() for broker in (*one.sources, *one.destinations))
    return sorted(dict.fromkeys(each))


# -- texts


def names_of(partitions: Iterable[TopicPartition]) -> str:
    """Return the partitions' names, sorted and separated by commas."""
    return ",".join(name_of(partition) for partition in sorted(partitions))


def plural(noun: str, things: Sequence[object] | Mapping[Any, Any]) -> str:
    """Return the noun, with an s unless there is exactly one thing."""
    return noun if len(things) == 1 else f"{noun}s"


def moving_line(partition: TopicPartition, one: Reassignment) -> str:
    """Return the line of --list for a partition."""
    line = f"{name_of(partition)}: replicas: {_ids(one.replicas)}."
    line += f" adding: {_ids(one.adding)}." if one.adding else ""
    return line + (f" removing: {_ids(one.removing)}." if one.removing else "")


def status_line(
    partition: TopicPartition, target: Sequence[int], now: Sequence[int], moving: Moving
) -> str:
    """Return the line of --verify for a partition."""
    name = name_of(partition)
    if partition in moving:
        return f"Reassignment of partition {name} is still in progress."
    if list(now) == list(target):
        return f"Reassignment of partition {name} is completed."
    return (
        f"There is no active reassignment of partition {name}, but replica set is "
        f"{_ids(now)} rather than {_ids(target)}."
    )


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))
