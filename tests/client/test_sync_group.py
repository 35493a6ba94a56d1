"""The consumer for ordinary code in a group: listeners in the caller's thread, commits, Ctrl-C."""

import asyncio
import inspect
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import uvloop

from minikafka import Consumer, OffsetAndMetadata, RebalanceListener, TopicPartition, aio
from minikafka.client.refusals import CommitFailed
from minikafka.protocol.errors import ErrorCode

from .fake_broker import FakeCluster
from .fake_group import FakeGroup, install
from .test_consumer import fill, numbers

TP, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)
Setup = tuple[FakeCluster, FakeGroup]
Partitions = Sequence[TopicPartition]


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Iterator[Setup]:
    """A fake cluster with a group, on a loop in another thread."""
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def make() -> Setup:
        cluster, group = install(monkeypatch)
        for part in cluster.create("t", partitions=2).partitions:
            fill(part, 20)
        await cluster.__aenter__()
        return cluster, group

    made = asyncio.run_coroutine_threadsafe(make(), loop).result()
    yield made
    asyncio.run_coroutine_threadsafe(made[0].__aexit__(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def member(cluster: FakeCluster, **settings: Any) -> Consumer:
    defaults = {"group_id": "g", "auto_offset_reset": "earliest", "heartbeat_interval_ms": 20}
    return Consumer(cluster.bootstrap, **{**defaults, **settings})


def test_listeners_are_called_in_the_thread_that_polls_and_may_use_the_consumer(
    setup: Setup,
) -> None:
    cluster, group = setup
    called: list[tuple[str, int, int]] = []

    def on_assigned(partitions: Partitions) -> None:
        called.append(("assigned", len(partitions), threading.get_ident()))
        consumer.seek(TP, 15)

    def on_revoked(partitions: Partitions) -> None:
        called.append(("revoked", len(partitions), threading.get_ident()))
        consumer.commit({TP: OffsetAndMetadata(17, "by hand")})

    with member(cluster, enable_auto_commit=False) as consumer:
        consumer.subscribe(["t"], listener=RebalanceListener(on_assigned, on_revoked))
        got = [next(consumer) for _ in range(25)]
        assert numbers([one for one in got if one.partition == 0]) == [*range(15, 20)]
        assert consumer.group_metadata().member_id == "m1"
        assert consumer.metrics()["assigned-partitions"] == 2
    here = threading.get_ident()
    assert called == [("assigned", 2, here), ("revoked", 2, here)]
    assert group.committed[TP] == (17, -1, "by hand")
    assert group.members == {}


def test_what_a_listener_raises_the_poll_raises(setup: Setup) -> None:
    cluster, _ = setup

    def on_assigned(partitions: Partitions) -> None:
        raise ZeroDivisionError

    async def not_here(partitions: Partitions) -> None:
        raise AssertionError

    with member(cluster) as consumer:
        consumer.subscribe(["t"], listener=RebalanceListener(on_assigned))
        with pytest.raises(ZeroDivisionError):
            next(consumer)
        assert next(consumer).offset == 0
        consumer.subscribe(["t"], listener=RebalanceListener(on_revoked=not_here))
        with pytest.raises(TypeError, match="plain functions"):
            consumer.unsubscribe()


def test_closing_in_the_middle_commits_what_was_handed_out(setup: Setup) -> None:
    cluster, group = setup
    with member(cluster) as consumer:
        consumer.assign([TP])
        for record in consumer:
            if record.offset == 4:
                break
        assert consumer.position(TP) == 5
        assert consumer.committed() == {TP: None}
    assert group.commits == [{TP: 5}]


def test_an_interrupt_commits_nothing_that_was_not_dealt_with(setup: Setup) -> None:
    cluster, group = setup

    def work() -> None:
        with member(cluster) as consumer:
            consumer.assign([TP])
            assert len(consumer.poll(5000, 3)) == 3
            assert len(consumer.poll(5000, 4)) == 4
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert group.commits == [{TP: 3}]


def test_a_commit_that_fails_says_so_here(setup: Setup) -> None:
    cluster, group = setup
    with member(cluster) as consumer:
        consumer.subscribe(["t"])
        next(consumer)
        group.refuse_commits = [ErrorCode.ILLEGAL_GENERATION]
        with pytest.raises(CommitFailed):
            consumer.commit()


def test_the_twin_has_every_method_with_the_same_arguments() -> None:
    ours, theirs = arguments(Consumer), arguments(aio.Consumer)
    for name in ("start", "forget_in_hand"):
        theirs.pop(name)
    assert ours.pop("config") is not None
    for each in (ours, theirs):
        assert isinstance(each.pop("is_closed"), property)
    assert ours == theirs


def arguments(cls: Any) -> dict[str, Any]:
    found = {}
    for name, member in inspect.getmembers(cls):
        if name.startswith("_"):
            continue
        if not callable(member):
            found[name] = member
            continue
        parameters = inspect.signature(member).parameters.values()
        found[name] = {p.name: (p.kind, p.default) for p in parameters}
    return found
