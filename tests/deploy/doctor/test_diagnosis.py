"""The rules of the doctor: facts in, findings out."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest

from minikafka import TopicPartition
from minikafka.client.admin.cluster_types import MetadataQuorum, QuorumReplica
from minikafka.client.admin.log_types import LogDirectory
from minikafka.client.admin.replica_types import FollowerState, ReplicaRole, ReplicaState
from minikafka.client.net.address import Address
from minikafka.deploy.cli import minikafka
from minikafka.deploy.doctor.connections import NEEDED, is_loopback
from minikafka.deploy.doctor.diagnosis import diagnose
from minikafka.deploy.doctor.facts import (
    Advertised,
    Broker,
    Clock,
    ControllerProbe,
    Controllers,
    Examined,
    Partition,
    Probe,
    Scrape,
    Skipped,
    StuckGroup,
    Transaction,
)
from minikafka.deploy.doctor.findings import Finding, Severity, grouped, is_well
from minikafka.deploy.doctor.report import command_line, document, lines
from minikafka.deploy.doctor.scraping import flush_times, metrics_address
from minikafka.deploy.doctor.upkeep import controller_findings
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.schema import Versions

ROOT = Path(__file__).parents[3]
GIB = 1 << 30
ALL_APIS: dict[int, Versions] = {key: Versions(0, 20) for key in NEEDED}
NOW = 1_000_000
ORDERS = TopicPartition("orders", 0)


def probe(node_id: int, **changes: Any) -> Probe:
    address = Address(f"host-{node_id}", 9092)
    return Probe(address, cluster_id="c", versions=ALL_APIS, **changes)


def broker(node_id: int, **changes: Any) -> Broker:
    told = {"probe": probe(node_id), "scrape": Scrape(Clock(0, 500)), **changes}
    return Broker(node_id, Address(f"host-{node_id}", 9092), **told)


def voter(node_id: int, fetched: int | None = NOW, caught_up: int | None = NOW) -> QuorumReplica:
    return QuorumReplica(node_id, "", 500 if caught_up == NOW else 100, fetched, caught_up)


def quorum(*voters: QuorumReplica) -> MetadataQuorum:
    return MetadataQuorum(101, 1, 500, voters)


def cluster(*brokers: Broker, **changes: Any) -> Examined:
    """A cluster with nothing wrong, but for the changes."""
    known = {node_id: broker(node_id) for node_id in (1, 2, 3)}
    known.update({one.node_id: one for one in brokers})
    listed = tuple(Advertised(each, one.address) for each, one in known.items())
    healthy = Examined(
        (replace(probe(1), brokers=listed),),
        known,
        {ORDERS: Partition((1, 2, 3), (1, 2, 3), 1, 2)},
        controllers=Controllers(quorum(voter(101), voter(102), voter(103)), clock=Clock(0, 5)),
    )
    return replace(healthy, **changes)


def state(**changes: Any) -> ReplicaState:
    told: dict[str, Any] = {
        "broker_id": 1,
        "role": ReplicaRole.LEADER,
        "leader_id": 1,
        "leader_epoch": 3,
        "log_start_offset": 0,
        "log_end_offset": 100,
        "high_watermark": 100,
        "last_stable_offset": 100,
        "size_bytes": 10,
        "segment_count": 1,
        "directory_id": "",
        "epochs": (),
    }
    return ReplicaState(**{**told, **changes})


def partition(isr: tuple[int, ...], **changes: Any) -> Mapping[TopicPartition, Partition]:
    told = {"replicas": (1, 2, 3), "leader": isr[0] if isr else -1, "min_isr": 2, **changes}
    return {ORDERS: Partition(isr=isr, **told)}


def directory(total: int | None, usable: int | None, error: ApiError | None = None) -> Broker:
    return broker(2, directories={"/data": LogDirectory(error, {}, total, usable)})


def flushes(spent_ms: float) -> Broker:
    return broker(2, scrape=Scrape(Clock(0, 500), {"/data": spent_ms}))


def clock(node_id: int, ahead_ms: int) -> Broker:
    return broker(node_id, scrape=Scrape(Clock(ahead_ms, 500)))


def bad(phase: str, cause: str) -> Probe:
    return Probe(Address("host-2", 9092), phase, cause)


LACKING = {**ALL_APIS, min(NEEDED): Versions(0, 1)}
STORAGE = ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
FAULTS: dict[str, tuple[Examined, str, str]] = {
    "refused": (
        Examined((bad("connect", "refused"),)),
        "unreachable-bootstrap",
        "connect: refused",
    ),
    "a controller": (
        Examined((bad("negotiate", "it is a controller: clients need a broker's address"),)),
        "not-a-broker",
        "it is a controller",
    ),
    "TLS": (Examined((bad("negotiate", "the peer speaks TLS"),)), "not-a-broker", "TLS"),
    "two clusters": (
        cluster(bootstrap=(probe(1), replace(probe(2), cluster_id="d"))),
        "another-cluster",
        "it leads to cluster d, host-1:9092 to c",
    ),
    "advertised away": (
        cluster(broker(2, probe=bad("resolve", "unknown"), scrape=None)),
        "unreachable-advertised",
        "resolve: unknown; the bootstrap server host-1:9092 tells clients this address",
    ),
    "advertised localhost": (
        cluster(replace(broker(2), address=Address("localhost", 9092))),
        "advertised-localhost",
        "each client's own machine",
    ),
    "advertised into another cluster": (
        cluster(broker(2, probe=replace(probe(2), cluster_id="d"))),
        "another-cluster",
        "a broker of cluster d answers there",
    ),
    "another broker": (
        cluster(broker(2, probe=replace(probe(2), denial="this is broker 3"))),
        "another-broker",
        "this is broker 3",
    ),
    "shared": (
        cluster(replace(broker(2), address=Address("host-1", 9092))),
        "shared-address",
        "brokers 1, 2 all advertise it",
    ),
    "fenced": (
        cluster(broker(4, probe=None, scrape=None, is_fenced=True)),
        "fenced-broker",
        "the controllers do not hear from it",
    ),
    "failed disk": (cluster(directory(None, None, STORAGE)), "failed-directory", "offline"),
    "full disk": (cluster(directory(100 * GIB, 10 * GIB)), "disk-full", "10.0% of the volume"),
    "slow disk": (cluster(flushes(900.0)), "slow-disk", "1 % of its flushes take more than 900 ms"),
    "clock": (cluster(clock(2, -5000)), "clock-skew", "5.0 s behind of the clock here (± 0.5 s)"),
    "slow replica": (
        cluster(
            partitions=partition(
                (1, 2, 4),
                replicas=(1, 2, 3, 4),
                min_isr=1,
                states={1: state(followers=(FollowerState(3, 40, 40, 7_000),)), 3: state()},
            ),
            brokers={each: broker(each) for each in (1, 2, 3, 4)},
        ),
        "under-replicated",
        "3 of 4 replicas are in sync; broker 3 is slow: 60 offsets behind, for 7.0 s",
    ),
    "open transaction": (
        cluster(transactions=(Transaction(ORDERS, 7, 40, 600_000, "books"),)),
        "open-transaction",
        "of books is open for 10 min: readers of committed records stop at 40",
    ),
    "hanging transaction": (
        cluster(transactions=(Transaction(ORDERS, 7, 40, 600_000, None),)),
        "hanging-transaction",
        "producer 7 that no coordinator knows",
    ),
    "stuck group": (
        cluster(stuck_groups=(StuckGroup("team", "PreparingRebalance"),)),
        "stuck-group",
        "PreparingRebalance",
    ),
    "idle group": (
        cluster(stuck_groups=(StuckGroup("team", "Stable", ORDERS, 40, 3),)),
        "idle-group",
        "it stays at 40 of orders-0 and 2 more",
    ),
    "a broker that hangs": (
        cluster(broker(2, probe=bad("negotiate", "no answer within 5000 ms"), scrape=None)),
        "unreachable-advertised",
        "negotiate: no answer within 5000 ms",
    ),
    "throttle": (
        cluster(broker(2, throttles=("leader.replication.throttled.rate",))),
        "left-throttle",
        "leader.replication.throttled.rate is set though nothing moves",
    ),
    "throttled topic": (cluster(throttled_topics=("orders",)), "left-throttle", "throttled"),
    "one controller": (
        cluster(controllers=Controllers(quorum(voter(101)))),
        "one-controller",
        "only one",
    ),
    "no controller": (
        cluster(controllers=Controllers(why="late")),
        "no-controller",
        "none is active: late",
    ),
    "a voter that is away": (
        cluster(controllers=Controllers(quorum(voter(101), voter(102), voter(103, NOW - 60_000)))),
        "voter-behind",
        "has not fetched for 60 s; 2 of 3 keep up, and 2 are needed",
    ),
    "a voter that is behind": (
        cluster(
            controllers=Controllers(
                quorum(voter(101), voter(102), voter(103), voter(104), voter(105, caught_up=1))
            )
        ),
        "voter-behind",
        "400 records of metadata behind; 4 of 5 keep up",
    ),
    "a controller that is away": (
        replace(
            cluster(),
            controllers=replace(
                cluster().controllers,
                probes=(ControllerProbe(Address("host-9", 9093), "refused"),),
            ),
        ),
        "unreachable-controller",
        "refused",
    ),
    "a controller that asks for no key": (
        replace(
            cluster(),
            controllers=replace(
                cluster().controllers,
                probes=(ControllerProbe(Address("host-9", 9093), is_sealed=False),),
            ),
        ),
        "unsealed-controller",
        "whoever reaches it may be a broker",
    ),
    "racks": (
        cluster(
            broker(1, rack="a"),
            broker(2, rack="a"),
            broker(3, rack="b"),
            partitions=partition((1, 2), replicas=(1, 2), min_isr=1),
        ),
        "one-rack",
        "all replicas (1,2) are in rack a",
    ),
    "not preferred": (
        cluster(partitions=partition((2, 1, 3))),
        "not-preferred",
        "others lead 1 of the 1 partitions",
    ),
    "not examined": (cluster(skipped=(Skipped("topics", "late"),)), "not-examined", "late"),
}


def faults(found: Examined) -> list[Finding]:
    return [one for one in diagnose(found) if one.severity is not Severity.NOTE]


def test_nothing_is_wrong_with_a_healthy_cluster() -> None:
    assert list(diagnose(cluster())) == []
    last = list(lines(cluster(), [], "host-1:9092"))
    assert last == ["Cluster c: 3 brokers, 1 partitions", "", "Nothing is wrong."]


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_found_alone(name: str) -> None:
    found, kind, what = FAULTS[name]
    (one,) = faults(found)
    assert one.kind == kind
    assert what in one.what
    assert one.cure
    assert not is_well([one])


@pytest.mark.parametrize(
    ("isr", "min_isr", "kind", "what"),
    [
        ((1, 2), 1, "under-replicated", "2 of 3 replicas are in sync; broker 3 is fenced"),
        ((1, 2), 3, "under-min-isr", "acks=all is refused"),
        ((1,), 2, "last-copy", "its last replica in sync is on broker 1; acks=all is refused"),
        ((), 2, "offline", "none was in sync"),
    ],
)
def test_a_partition_is_named_by_its_worst_trouble(
    isr: tuple[int, ...], min_isr: int, kind: str, what: str
) -> None:
    away = broker(3, is_fenced=True, probe=None, scrape=None)
    found = cluster(away, partitions=partition(isr, min_isr=min_isr))
    (one,) = [each for each in diagnose(found) if each.where == "orders-0"]
    assert (one.kind, what in one.what) == (kind, True), one.what


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"brokers": {1: broker(1), 2: broker(2)}}, "broker 3 is not registered"),
        (
            {"brokers": {**cluster().brokers, 3: broker(3, probe=bad("connect", "refused"))}},
            "broker 3 cannot be reached from here (connect: refused)",
        ),
        ({"states": {3: STORAGE}}, "broker 3: the log directory has failed"),
        (
            {"states": {3: ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)}},
            "broker 3 does not describe its replica: NOT_LEADER_OR_FOLLOWER",
        ),
        ({"states": {3: state(log_end_offset=7)}}, "broker 3 has records up to 7"),
        ({}, "broker 3 is not in sync"),
        ({"states": {1: state()}}, "broker 3 is unknown to leader 1"),
        (
            {"states": {1: state(followers=(FollowerState(3, None, None, 4_000),))}},
            "broker 3 has not fetched from leader 1 for 4.0 s",
        ),
        (
            {"states": {1: state(followers=(FollowerState(3, 100, 100, 0),))}},
            "broker 3 has caught up, and will be in sync soon",
        ),
    ],
)
def test_the_reason_why_a_replica_is_not_in_sync(told: dict[str, Any], why: str) -> None:
    states = told.get("states", {})
    found = cluster(partitions=partition((1, 2), min_isr=1, states=states))
    found = replace(found, brokers=told.get("brokers", found.brokers))
    (one,) = [each for each in diagnose(found) if each.where == "orders-0"]
    assert one.what.partition("; ")[2].startswith(why)


def test_what_is_unsafe_to_restart() -> None:
    assert not [one for one in diagnose(cluster()) if one.kind == "unsafe-restart"]
    found = cluster(partitions=partition((1, 2)))
    unsafe = [one for one in diagnose(found) if one.kind == "unsafe-restart"]
    assert [(one.where, one.severity) for one in unsafe] == [
        ("broker 1", Severity.WARNING),
        ("broker 2", Severity.WARNING),
    ]
    never = cluster(partitions=partition((1, 2), replicas=(1, 2)))
    notes = [one for one in diagnose(never) if one.kind == "unsafe-restart"]
    assert [one.severity for one in notes] == [Severity.NOTE, Severity.NOTE]
    many = {TopicPartition("t", index): Partition((2,), (2,), 2) for index in range(5)}
    (one,) = [one for one in diagnose(cluster(partitions=many)) if one.kind == "unsafe-restart"]
    assert one.what.endswith("t-2 (nothing could be written or read) and 2 more")


def test_topics_without_a_replica_to_spare() -> None:
    single = Partition((1,), (1,), 1)
    strict = Partition((1, 2), (1, 2), 1, 2)
    topics = {TopicPartition("a", 0): single, TopicPartition("b", 0): strict}
    found = faults(cluster(partitions=topics))
    assert [(one.kind, one.where) for one in found] == [
        ("one-replica", "topic a"),
        ("no-spare-replica", "topic b"),
    ]


def test_clocks_that_agree_with_each_other_blame_this_machine() -> None:
    found = cluster(
        *(clock(each, 60_000 + each) for each in (1, 2, 3)),
        controllers=replace(cluster().controllers, clock=Clock(60_000, 5)),
    )
    (one,) = faults(found)
    assert (one.kind, one.where) == ("clock-skew", "this machine")
    assert "60.0 s behind of the cluster's clocks" in one.what


def test_clocks_that_cannot_be_known_are_named_and_are_no_fault() -> None:
    (one,) = diagnose(cluster(broker(2, scrape=None), broker(3, scrape=Scrape())))
    assert (one.kind, one.where, one.severity) == (
        "clock-unknown",
        "brokers 2, 3",
        Severity.NOTE,
    )
    assert is_well([one])


def test_apis_that_clients_miss_and_brokers_of_two_versions() -> None:
    old = broker(2, probe=replace(probe(2), versions=LACKING))
    found = faults(cluster(old))
    assert [one.kind for one in found] == ["api-missing", "mixed-versions"]
    assert "cannot produce there: it serves PRODUCE up to version 1" in found[0].what
    assert "2" in found[1].what


def test_what_moves_has_its_throttles() -> None:
    throttled = broker(2, throttles=("leader.replication.throttled.rate",))
    assert faults(cluster(throttled, throttled_topics=("orders",), moving=(ORDERS,))) == []


def test_what_brokers_do_not_have_is_a_note() -> None:
    skipped = Skipped("replicas", "it is minikafka's own", is_supported=False)
    (one,) = diagnose(cluster(skipped=(skipped,)))
    assert one.severity is Severity.NOTE
    away = broker(2, probe=bad("resolve", "unknown"), scrape=None)
    found = diagnose(cluster(away, skipped=(Skipped("groups", "late"),)))
    assert [one.severity for one in found if one.kind == "not-examined"] == [Severity.NOTE]


def test_an_unknown_quorum_of_foreign_brokers_is_no_fault() -> None:
    skipped = (Skipped("controllers", "no such API", is_supported=False),)
    assert faults(cluster(controllers=Controllers(why="x"), skipped=skipped)) == []


def test_a_cluster_that_was_made_small_has_notes_but_no_fault() -> None:
    at = Address("host-1", 9092)
    small = replace(
        cluster(controllers=Controllers(quorum(voter(101)))),
        brokers={1: Broker(1, at, probe=probe(1), scrape=Scrape(Clock(0, 500)))},
        partitions={ORDERS: Partition((1,), (1,), 1)},
    )
    assert faults(small) == []
    kinds = [one.kind for one in diagnose(small)]
    assert kinds == ["one-controller", "unsafe-restart", "one-replica"]


def test_severities_have_colours_on_a_terminal() -> None:
    found = cluster(partitions={ORDERS: Partition((1, 2, 3), (1,), 1)})
    groups = grouped(diagnose(found), 10)
    plain = list(lines(found, groups, "host-1:9092"))
    coloured = list(lines(found, groups, "host-1:9092", colours=True))
    assert "\x1b[31m\x1b[1mERROR last-copy\x1b[0m" in coloured
    assert [click.unstyle(line) for line in coloured] == plain
    assert "ERROR last-copy" in plain


def test_at_most_so_many_of_a_kind_are_shown_the_worst_first() -> None:
    many = {TopicPartition("t", index): Partition((1, 2, 3), (1,), 1) for index in range(350)}
    found = cluster(broker(2, rack="x"), partitions=many)
    groups = grouped(diagnose(found), 10)
    assert [(one.kind, one.count, one.hidden_count) for one in groups] == [
        ("last-copy", 350, 340),
        ("unsafe-restart", 1, 0),
    ]
    text = list(lines(found, groups, "host-1:9092"))
    assert "  ... and 340 more" in text
    assert text[-1] == "350 errors, 1 warning, 0 notes"
    assert len(text) < 50
    told = document(found, groups, "host-1:9092")
    assert [(one["kind"], one["count"], len(one["findings"])) for one in told["kinds"]] == [
        ("last-copy", 350, 10),
        ("unsafe-restart", 1, 1),
    ]


@pytest.mark.parametrize("name", FAULTS)
def test_the_commands_that_are_told_exist(name: str) -> None:
    for one in faults(FAULTS[name][0]):
        if one.command:
            _parse(command_line(one.command, "host-1:9092").split()[1:])


def test_the_operations_page_lists_every_kind() -> None:
    page = (ROOT / "docs/operations.md").read_text()
    table = page.partition("| finding |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    listed = sorted(kind for row in rows for kind in re.findall(r"`([a-z-]+)`", row))
    sources = "".join(path.read_text() for path in (ROOT / "deploy/doctor").glob("*.py"))
    made = dict.fromkeys(re.findall(r'Finding\(\s*f?"([a-z-]+)"', sources))
    ways = ["unreachable-advertised", "unreachable-bootstrap"]
    assert listed == sorted([*(each for each in made if each != "unreachable-"), *ways])


def _parse(words: list[str]) -> None:
    """Parse as the command line would; a wrong flag raises UsageError."""
    command: click.Command = minikafka
    context: click.Context | None = None
    while isinstance(command, click.Group):
        context = command.make_context("minikafka", words, parent=context)
        words = [*context._protected_args, *context.args]
        _, found, words = command.resolve_command(context, words)
        assert found is not None
        command = found
    command.make_context("minikafka", words, parent=context)


def test_hosts_that_mean_the_machine_that_uses_them() -> None:
    assert all(map(is_loopback, ("localhost", "LocalHost", "127.0.0.3", "::1")))
    assert not any(map(is_loopback, ("host-1", "10.0.0.1", "::2")))


@pytest.mark.parametrize(
    ("listener", "address"),
    [
        ("0.0.0.0:9404", Address("host-1", 9404)),
        ("[::]:9404", Address("host-1", 9404)),
        (":9404", Address("host-1", 9404)),
        ("10.0.0.1:9404", Address("10.0.0.1", 9404)),
        ("[fe80::1]:9404", Address("fe80::1", 9404)),
        ("nonsense", None),
        ("host:0", None),
    ],
)
def test_where_metrics_are_served(listener: str, address: Address | None) -> None:
    assert metrics_address(listener, "host-1") == address


def test_flushes_are_read_off_metrics() -> None:
    name = 'kafka_log_logflushstats_logflushrateandtimems{logDirectory="/data",quantile='
    text = f'{name}"0.5"}} 1.0\n{name}"0.99"}} 12.5\nkafka_other{{quantile="0.99"}} 3\n'
    assert flush_times(text.encode()) == {"/data": 12.5}
    assert flush_times(f'{name}"0.99"}} NaN\n'.encode()) == {}


@pytest.mark.parametrize(
    ("probe", "cures"),
    [
        (ControllerProbe(Address("h", 9093), "set control.psk.file there"), ["--command-config"]),
        (ControllerProbe(Address("h", 9093), "refused"), ["Start it"]),
        (ControllerProbe(Address("127.0.0.1", 9093), is_sealed=False), []),
        (ControllerProbe(Address("h", 9093), is_sealed=True), []),
    ],
)
def test_what_is_said_of_a_controller_and_its_key(probe: ControllerProbe, cures: list[str]) -> None:
    whole = cluster()
    found = replace(whole, controllers=replace(whole.controllers, probes=(probe,)))
    told = [
        each.cure for each in controller_findings(found) if each.where.startswith("controller h")
    ]
    assert [cure in text for cure, text in zip(cures, told, strict=True)] == [True] * len(cures)
