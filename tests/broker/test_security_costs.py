"""What security costs a request, counted in calls of functions: the same on each machine."""

import gc
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from minikafka.protocol.acls import Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

from .conftest import MakeBroker
from .edge_support import TOPIC, TOPIC_ID, FakeBroker, batch
from .test_permissions import STANDARD, give

MORE_MAX = 8
"""The most calls that an authorizer may add to a request that is like one before it."""


def acls(count: int) -> list[Acl]:
    """Entries that let everybody produce and fetch, after others that concern other topics."""
    names = [f"topic-{number}" for number in range(count - 2)]
    others = [
        Acl(
            Resource.TOPIC, name, Pattern.LITERAL, "User:bob", "*", Operation.READ, Permission.ALLOW
        )
        for name in names
    ]
    return others + [
        Acl(Resource.TOPIC, TOPIC, Pattern.LITERAL, "User:*", "*", operation, Permission.ALLOW)
        for operation in (Operation.READ, Operation.WRITE)
    ]


def calls_of(act: Callable[[], None]) -> Counter[str]:
    """Return how often each file's functions are called.

    A collection of garbage would call whatever listens for it, so there is none.
    """
    calls: Counter[str] = Counter()

    def note(frame: Any, event: str, arg: object) -> None:
        if event == "call":
            calls[frame.f_code.co_filename] += 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return calls


def of_requests(broker: FakeBroker) -> Counter[str]:
    """Return the calls of one Produce and one Fetch, each like some before it."""
    client = broker.connect()
    data = PartitionProduceData(index=0, records=batch(b"v"))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    produce = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    fetch = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[asked])]
    )
    for _ in range(3):
        (produced,) = client.ask(produce, 9).responses[0].partition_responses
        (fetched,) = client.ask(fetch, 13).responses[0].partitions
        assert (produced.error_code, fetched.error_code) == (0, 0)
    frames = client.frame(produce, 9), client.frame(fetch, 13)

    def act() -> None:
        for frame in frames:
            client.feed(frame)

    return calls_of(act)


async def test_s_57_security_that_is_off_is_not_called(make_broker: MakeBroker) -> None:
    calls = of_requests(make_broker())
    assert sum(calls.values()) > 10
    assert [name for name in calls if "/security/" in name or "authentication" in name] == []


async def test_s_57_a_request_like_one_before_costs_no_decision(make_broker: MakeBroker) -> None:
    off = of_requests(make_broker())
    counted = []
    for count in (2, 1000):
        broker = make_broker(**STANDARD)
        give(broker, *acls(count))
        counted.append(of_requests(broker))
    few, many = counted
    assert few == many
    assert [name for name in many if "acl_index" in name] == []
    assert sum((many - off).values()) <= 2 * MORE_MAX
