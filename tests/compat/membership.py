"""The partitions that members of a group own, and the records that they have received."""

import time
from collections.abc import Callable, Sequence

from .agent import Agent, Record, record_of

Place = tuple[str, int]
WITHIN_S = 90
NOW_MS = int(time.time() * 1000)
"""Of about the same time as transaction markers: no segment is rolled between."""


def all_places(topic: str, partitions: int) -> list[Place]:
    return [(topic, partition) for partition in range(partitions)]


def owned(member: Agent) -> list[Place]:
    """Return the partitions that the member was last assigned."""
    told = member.events("assigned")
    return [(topic, partition) for topic, partition in told[-1]["places"]] if told else []


def received(member: Agent) -> list[tuple[int, int, bytes | None]]:
    """Return partition, offset and value of every record that the member has received."""
    return [
        (found["p"], found["o"], record_of(found).value)
        for event in member.events("records")
        for found in event["records"]
    ]


def until(probe: Callable[[], bool], members: Sequence[Agent], what: str) -> None:
    """Wait for what several members tell together."""
    deadline = time.monotonic() + WITHIN_S
    while not probe():
        told = {f"{one.client} {number}": owned(one) for number, one in enumerate(members)}
        log = [line for one in members for line in one.log[-20:]]
        assert time.monotonic() < deadline, f"no {what}: {told}\n{log}"
        time.sleep(0.02)


def until_shared(members: Sequence[Agent], places: list[Place]) -> None:
    """Wait until all places are owned, each by one member, and every member owns its share."""
    least = len(places) // len(members)

    def is_shared() -> bool:
        parts = [owned(one) for one in members]
        return sorted(place for part in parts for place in part) == sorted(places) and all(
            len(part) >= least for part in parts
        )

    until(is_shared, members, "assignment of everything to everybody")


def until_received(members: Sequence[Agent], values: Sequence[bytes]) -> None:
    """Wait until each of these values was received by a member, none twice."""
    expected = sorted(values)

    def found() -> list[bytes]:
        return sorted(
            value for one in members for _, _, value in received(one) if value in expected
        )

    until(lambda: len(found()) >= len(expected), members, "records")
    assert found() == expected


def numbered(first: int, count: int, partitions: int) -> list[Record]:
    """Records whose values tell their order, over all partitions in turn."""
    return [
        Record(number % partitions, None, b"%06d" % number, (), NOW_MS + number)
        for number in range(first, first + count)
    ]


def values_of(records: Sequence[Record]) -> list[bytes]:
    return [one.value or b"" for one in records]


def transact(agent: Agent, topic: str, records: list[Record], outcome: str) -> None:
    """Send records in a transaction, and commit or abort it."""
    agent.ask("tx_begin")
    agent.ask("tx_send", topic=topic, records=[one.as_json() for one in records])
    agent.ask(f"tx_{outcome}")
