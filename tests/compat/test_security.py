"""Every client over TLS: with a login, with a certificate, past its session, and not let in."""

import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ..security.certificates import authority
from ..support.cluster import wait_until
from . import javascript
from .agent import Agent, Agents, Record, Refused
from .clients import ALL, JAVASCRIPT, having
from .membership import numbered, received, transact, until_received, values_of
from .secured import CERTIFIED, LOGIN, PLAIN, Secured, Security, own_listener

pytestmark = pytest.mark.slow
every_client = pytest.mark.parametrize("client", ALL)

PARTITIONS = 2
RENEWED = 6
"""Each client begins so many sessions after its first ones, on all its connections together."""
ANEW = ("aiokafka",)
"""Clients that connect anew when their session ends; the others log in again as they are."""


@pytest.fixture
def one(secured: Secured, agents: Agents, client: str) -> Iterator[Agent]:
    skip_if_missing(client)
    with agents.taken(client, secured.addresses[LOGIN]) as (agent,):
        yield agent


def skip_if_missing(client: str) -> None:
    """Skip the test where a client of JavaScript cannot be run."""
    if client in JAVASCRIPT:
        javascript.skip_if_missing()


@contextlib.contextmanager
def lent_to_all(agents: Agents) -> Iterator[list[Agent]]:
    """Lend an agent of every client that can be run here."""
    with contextlib.ExitStack() as stack:
        there = [each for each in ALL if each not in JAVASCRIPT or javascript.missing() is None]
        yield [stack.enter_context(agents.taken(client, ""))[0] for client in there]


def play(agent: Agent, topic: str) -> None:
    """Write with and without transactions, and read as the member of a group."""
    agent.ask("create_topics", topics=[{"name": topic, "partitions": PARTITIONS}])
    first, aborted, committed = (numbered(at, 4, PARTITIONS) for at in (0, 4, 8))
    agent.produce(topic, first)
    if agent.client in having("transactions under ACLs"):
        agent.ask("tx_open", id=topic)
        transact(agent, topic, aborted, "abort")
        transact(agent, topic, committed, "commit")
    else:
        agent.produce(topic, committed)
    agent.ask("join", group=topic, topics=[topic], isolation="read_committed")
    until_received([agent], values_of([*first, *committed]))
    assert len(received(agent)) == len(first) + len(committed)
    agent.ask("commit", offsets=[[topic, 0, 3]])
    assert agent.ask("group_offsets", group=topic) == [[topic, 0, 3]]
    agent.ask("leave")


def pass_through(agent: Agent, topic: str) -> None:
    """Write and read."""
    agent.ask("create_topics", topics=[{"name": topic, "partitions": PARTITIONS}])
    sent = numbered(0, 4, PARTITIONS)
    agent.produce(topic, sent)
    assert sorted(values_of(agent.consume(topic, 4, partitions=PARTITIONS))) == values_of(sent)


@every_client
def test_scram_sha_512_over_tls(secured: Secured, one: Agent, topic: str) -> None:
    one.security = secured.login("SCRAM-SHA-512")
    play(one, topic)


@every_client
def test_scram_sha_256_over_tls(secured: Secured, one: Agent, topic: str) -> None:
    one.security = secured.login("SCRAM-SHA-256")
    pass_through(one, topic)


@every_client
def test_plain_over_tls(secured: Secured, one: Agent, topic: str) -> None:
    one.security = secured.login("PLAIN")
    pass_through(one, topic)


@every_client
def test_a_certificate_whose_subject_is_mapped(secured: Secured, one: Agent, topic: str) -> None:
    one.bootstrap, one.security = secured.addresses[CERTIFIED], secured.certificate("ALICE")
    play(one, topic)
    one.security = secured.certificate("Mallory")
    with pytest.raises(Refused):
        one.produce(topic, numbered(0, 1, 1))


def ways_out(secured: Secured) -> dict[str, tuple[str, Security]]:
    """Give each case's address and the security that does not fit it."""
    login, certified, plain = (secured.addresses[name] for name in (LOGIN, CERTIFIED, PLAIN))
    good = secured.login("SCRAM-SHA-512")
    other = {"ca": str(secured.directory / "other.pem")}
    return {
        "wrong password": (login, secured.login("SCRAM-SHA-512", "no")),
        "unknown user": (login, secured.login("SCRAM-SHA-512", user="nobody")),
        "untrusted broker": (login, good | other),
        "untrusted client": (certified, secured.certificate("mallory", authority("other"))),
        "no TLS": (certified, {}),
        "TLS": (plain, good),
    }


DENIED = "invalid credentials with SASL mechanism SCRAM-SHA-512|SASL authentication failed"
CLOSED = "closed|disconnected|brokers are down"
SAID = {
    "wrong password": DENIED,
    "unknown user": DENIED,
    "untrusted broker": "certificate",
    "untrusted client": CLOSED,
    "no TLS": CLOSED,
    "TLS": "handshake|TLS|Unable connect",
}
"""What every client says, or its log."""
LOGGED = (
    "login by SCRAM-SHA-512 failed: Authentication failed",
    "TLS handshake failed, tlsv1 alert unknown ca",
    "TLS handshake failed, certificate verify failed",
    "TLS handshake failed, wrong version number: the peer does not speak TLS",
    "the peer speaks TLS, this end plain text",
)
"""What the broker says of them all."""


@pytest.fixture(scope="module")
def refusals(secured: Secured, agents: Agents) -> dict[str, dict[str, str]]:
    """Have all clients try at once, because some of them take their time to give up."""
    found: dict[str, dict[str, str]] = {}
    with lent_to_all(agents) as lent:
        for agent in lent:
            for agent.bootstrap, agent.security in ways_out(secured).values():
                agent.tell("look")
        for agent in lent:
            told = found[agent.client] = {}
            for case in SAID:
                with pytest.raises(Refused) as refused:
                    agent.answer(f"end of its attempt ({case})")
                told[case] = str(refused.value)
    return found


@every_client
def test_a_client_that_is_not_let_in_says_so(
    secured: Secured, refusals: dict[str, dict[str, str]], client: str
) -> None:
    skip_if_missing(client)
    said = SAID
    if client == "kafka-python":
        # It may drop the last answer before the end of a connection, and says only that it ended.
        said = {case: f"{words}|{CLOSED}" for case, words in SAID.items()}
    for case, text in refusals[client].items():
        assert re.search(said[case], text, re.IGNORECASE), f"{case}: {text}"
    log = secured.cluster.broker(1).log()
    assert [line for line in LOGGED if line not in log] == []


class Past(NamedTuple):
    """What a client did while its sessions ended."""

    sent: list[Record]
    received: list[tuple[int, int, bytes | None]]
    let_in: int
    """Connections after the first round."""
    again: int
    """Logins on connections that were logged in."""


@pytest.fixture(scope="module")
def sessions(secured: Secured, agents: Agents) -> dict[str, Past]:
    """Have all clients write and read at once, until each has outlived its sessions."""
    sent: dict[str, list[Record]] = {}
    first: dict[str, int] = {}

    def is_past(client: str) -> bool:
        let_in, again = secured.logins(own_listener(client))
        return let_in >= first[client] + RENEWED if client in ANEW else again >= RENEWED

    with lent_to_all(agents) as lent:
        for agent in lent:
            agent.bootstrap = secured.addresses[own_listener(agent.client)]
            agent.security = secured.login("SCRAM-SHA-256")
            begin(agent)
            sent[agent.client] = []

        def write() -> bool:
            for agent in lent:
                sent[agent.client] += tell_written(agent, len(sent[agent.client]))
            for agent in lent:
                answer_written(agent)
            for client in sent:
                first.setdefault(client, secured.logins(own_listener(client))[0])
            return all(map(is_past, sent))

        wait_until(write, within_s=60, every_s=0.1)
        for agent in lent:
            until_received([agent], values_of(sent[agent.client]))
        return {
            agent.client: Past(
                sent[agent.client],
                received(agent),
                secured.logins(own_listener(agent.client))[0] - first[agent.client],
                secured.logins(own_listener(agent.client))[1],
            )
            for agent in lent
        }


def begin(agent: Agent) -> None:
    """Have a client join a group, and open a transactional producer if it can."""
    topic = f"renewed-{agent.client}"
    agent.ask("create_topics", topics=[{"name": topic, "partitions": PARTITIONS}])
    agent.ask("join", group=topic, topics=[topic], isolation="read_committed")
    if agent.client in having("transactions under ACLs"):
        agent.ask("tx_open", id=topic)


def tell_written(agent: Agent, number: int) -> list[Record]:
    """Have a record written, in a transaction if the client has them."""
    topic = f"renewed-{agent.client}"
    records = numbered(number, 1, PARTITIONS)
    written = {"topic": topic, "records": [each.as_json() for each in records]}
    if agent.client in having("transactions under ACLs"):
        agent.tell("tx_begin")
        agent.tell("tx_send", **written)
        agent.tell("tx_commit")
    else:
        agent.tell("produce", **written)
    return records


def answer_written(agent: Agent) -> None:
    """Wait until what `tell_written` has begun has succeeded."""
    steps = ("tx_begin", "tx_send", "tx_commit")
    for step in steps if agent.client in having("transactions under ACLs") else ("produce",):
        agent.answer(step)


@every_client
def test_s_13_sessions_end_while_it_writes_and_reads(
    sessions: dict[str, Past], client: str
) -> None:
    skip_if_missing(client)
    past = sessions[client]
    assert len(past.received) == len(past.sent)
    if client in ANEW:
        assert past.again == 0
        assert past.let_in >= RENEWED
    else:
        assert past.again >= RENEWED
