"""Transactions of every client: commit, abort, offsets, fencing, time out; what readers see."""

from collections.abc import Iterator, Sequence

import pytest

from minikafka import ErrorCode
from minikafka.protocol.api import ApiKey

from ..support.cluster import Cluster, wait_until
from . import javascript
from .agent import Agent, Agents, Refused
from .clients import ALL, JAVASCRIPT, having, needs
from .membership import numbered, transact, until_received, values_of

pytestmark = [pytest.mark.slow, needs(ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT)]
every_client = pytest.mark.parametrize("client", ALL)
PARTITIONS = 2
FENCED = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    -144,  # librdkafka's own: fenced
)


@pytest.fixture
def pair(cluster: Cluster, agents: Agents, client: str) -> Iterator[tuple[Agent, Agent]]:
    if client in JAVASCRIPT:
        javascript.skip_if_missing()
    with agents.taken(client, cluster.bootstrap, 2) as (one, other):
        yield one, other


def make(agent: Agent, topic: str, partitions: int = PARTITIONS) -> None:
    agent.ask("create_topics", topics=[{"name": topic, "partitions": partitions}])


def seen(agent: Agent, topic: str, count: int, isolation: str) -> list[bytes]:
    found = agent.consume(
        topic, count, partitions=PARTITIONS, isolation=f"read_{isolation}", wait_s=10
    )
    return sorted(values_of(found))


def until_committed(agent: Agent, group: str, offsets: list[list[object]]) -> None:
    """Markers are written after the answer to the commit."""
    wait_until(lambda: agent.ask("group_offsets", group=group) == offsets)


def play(agent: Agent, topic: str, outcomes: Sequence[str]) -> None:
    """Transactions that end so; what was aborted lies between what was committed."""
    make(agent, topic)
    agent.ask("tx_open", id=topic)
    parts = [numbered(10 * number, 10, PARTITIONS) for number in range(len(outcomes))]
    for part, outcome in zip(parts, outcomes, strict=True):
        transact(agent, topic, part, outcome)
    everything = [one for part in parts for one in part]
    committed = [*parts[0], *parts[-1]]
    assert seen(agent, topic, len(committed), "committed") == values_of(committed)
    assert seen(agent, topic, len(everything), "uncommitted") == values_of(everything)


@every_client
def test_only_what_is_committed_is_read_by_read_committed(agent: Agent, topic: str) -> None:
    play(agent, topic, ("commit", "abort", "commit"))


@pytest.mark.parametrize("client", having("several aborts in one fetch"))
def test_several_aborted_transactions_are_left_out(agent: Agent, topic: str) -> None:
    play(agent, topic, ("commit", "abort", "abort", "abort", "commit"))


@every_client
def test_what_is_open_is_not_read_yet(pair: tuple[Agent, Agent], topic: str) -> None:
    one, other = pair
    make(one, topic)
    before, open_part = numbered(0, 4, PARTITIONS), numbered(4, 4, PARTITIONS)
    one.produce(topic, before)
    one.ask("tx_open", id=topic)
    one.ask("tx_begin")
    one.ask("tx_send", topic=topic, records=[each.as_json() for each in open_part])
    found = other.consume(topic, 5, partitions=PARTITIONS, isolation="read_committed", wait_s=1.5)
    assert sorted(values_of(found)) == values_of(before)
    one.ask("tx_commit")
    assert seen(other, topic, 8, "committed") == values_of([*before, *open_part])


@every_client
def test_offsets_are_committed_with_the_records(pair: tuple[Agent, Agent], topic: str) -> None:
    """Read, process, write: both come to pass or neither."""
    one, other = pair
    source, sink = f"{topic}-in", f"{topic}-out"
    make(one, source, 1)
    make(one, sink)
    sent = numbered(0, 10, 1)
    one.produce(source, sent)
    one.ask("join", group=topic, topics=[source])
    until_received([one], values_of(sent))
    one.ask("tx_open", id=topic)
    for upto, outcome in ((4, "commit"), (9, "abort"), (7, "commit")):
        one.ask("tx_begin")
        made = [each._replace(value=b"%s %d" % (outcome.encode(), upto)) for each in sent[:2]]
        made = [each._replace(partition=number) for number, each in enumerate(made)]
        one.ask("tx_send", topic=sink, records=[each.as_json() for each in made])
        one.ask("tx_offsets", group=topic, offsets=[[source, 0, upto]])
        one.ask(f"tx_{outcome}")
        expected = 4 if upto in (4, 9) else 7
        until_committed(other, topic, [[source, 0, expected]])
    assert seen(other, sink, 4, "committed") == [b"commit 4"] * 2 + [b"commit 7"] * 2


@pytest.mark.parametrize("client", having("fencing"))
def test_a_zombie_is_fenced(pair: tuple[Agent, Agent], topic: str) -> None:
    """Who opens the same transactional id later ends what the earlier one had begun."""
    zombie, successor = pair
    make(zombie, topic)
    zombie.ask("tx_open", id=topic)
    zombie.ask("tx_begin")
    lost, kept = numbered(0, 4, PARTITIONS), numbered(4, 4, PARTITIONS)
    zombie.ask("tx_send", topic=topic, records=[each.as_json() for each in lost])
    successor.ask("tx_open", id=topic)
    with pytest.raises(Refused) as refused:
        zombie.ask("tx_commit")
    assert refused.value.code in FENCED or refused.value.name == "ProducerFenced"
    transact(successor, topic, kept, "commit")
    assert seen(successor, topic, 4, "committed") == values_of(kept)


@every_client
def test_who_takes_too_long_is_aborted(pair: tuple[Agent, Agent], topic: str) -> None:
    one, other = pair
    make(one, topic)
    one.ask("tx_open", id=topic, timeout_ms=1000)
    one.ask("tx_begin")
    lost, kept = numbered(0, 4, PARTITIONS), numbered(4, 4, PARTITIONS)
    one.ask("tx_send", topic=topic, records=[each.as_json() for each in lost])
    other.produce(topic, kept)
    # Nothing behind an open transaction is read: that these are means that it was ended.
    assert seen(other, topic, 4, "committed") == values_of(kept)
    with pytest.raises(Refused):
        one.ask("tx_commit")
    assert seen(other, topic, 4, "committed") == values_of(kept)


@pytest.mark.parametrize("client", having("list transactions"))
def test_transactions_are_listed(pair: tuple[Agent, Agent], topic: str) -> None:
    one, other = pair
    make(one, topic)
    one.ask("tx_open", id=topic)
    transact(one, topic, numbered(0, 2, PARTITIONS), "commit")
    assert topic in other.ask("list_transactions")
