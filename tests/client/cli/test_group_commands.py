"""`consumer-groups`, `groups`, `transactions` and the tools about logs: lines and exit codes."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from minikafka.client.admin.group_types import GroupDescription, GroupListing, GroupMember
from minikafka.client.admin.lag_types import PartitionLag
from minikafka.client.admin.log_types import LogDirectory, ReplicaInfo
from minikafka.client.admin.topic_types import TopicListing
from minikafka.client.admin.transaction_types import (
    ActiveProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)
from minikafka.client.cli.get_offsets import rules_of, time_of
from minikafka.client.cli.offset_resets import (
    Bounds,
    Scenario,
    csv_text,
    datetime_ms,
    duration_ms,
    new_offset,
    read_csv,
)
from minikafka.client.cli.transactions import open_too_long
from minikafka.client.errors import AdminError
from minikafka.client.group_types import OffsetAndMetadata
from minikafka.client.offsets import ListedOffset
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError

from .conftest import Run
from .fake_admin import FakeAdmin

AT = ("--bootstrap-server", "localhost:9092")
GROUPS = ("consumer-groups", *AT)
TRANSACTIONS = ("transactions", *AT)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
EARLIEST, LATEST = -2, -1


class GroupAdmin(FakeAdmin):
    """Logs from 10 to 100, a record each second from second 10 on."""

    def __init__(self) -> None:
        super().__init__()
        self.placement = {A0: (1, 2), A1: (2, 1), B0: (3, 1)}
        self.groups: dict[str, GroupDescription] = {}
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.lags: dict[TopicPartition, PartitionLag | ApiError] = {}
        self.refusals: dict[str, ApiError] = {}
        self.transactions: dict[str, TransactionDescription] = {}
        self.producers: dict[TopicPartition, list[ActiveProducer]] = {}

    def add(self, name: str, state: str, *members: GroupMember) -> None:
        self.groups[name] = GroupDescription(name, state, "consumer", "range", members, 2)

    async def list_topics(self, *, include_internal: bool = False) -> list[TopicListing]:
        return await super().list_topics()

    async def list_groups(
        self, *, states: Sequence[str] = (), types: Sequence[str] = ()
    ) -> list[GroupListing]:
        self.asked.append(("list", list(states), list(types)))
        connect = GroupListing("workers", "connect", "Stable", "classic")
        found = [
            GroupListing(g.group_id, "consumer", g.state, "classic") for g in self.groups.values()
        ]
        return sorted([*found, connect])

    async def describe_groups(self, names: Iterable[str]) -> dict[str, GroupDescription]:
        missing = {n: ApiError(ErrorCode.GROUP_ID_NOT_FOUND) for n in names if n not in self.groups}
        if missing:
            raise AdminError(missing)
        return {name: self.groups[name] for name in names}

    def _refuse(self) -> None:
        if self.refusals:
            raise AdminError(self.refusals)

    async def delete_groups(self, names: Iterable[str]) -> None:
        self.asked.append(("delete", list(names)))
        self._refuse()

    async def list_group_offsets(self, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.offsets.get(name, {})

    async def alter_group_offsets(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.asked.append(("alter", name, dict(offsets)))

    async def delete_group_offsets(self, name: str, partitions: Iterable[TopicPartition]) -> None:
        self.asked.append(("forget", name, list(partitions)))
        self._refuse()

    async def list_offsets(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        def at(when: int) -> int:
            if when == LATEST:
                return 100
            if when == EARLIEST:
                return 10
            second = -(-when // 1000)
            return second if second < 100 else -1

        return {one: ListedOffset(at(when), -1, 0) for one, when in timestamps.items()}

    async def list_transactions(
        self,
        *,
        producer_ids: Sequence[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        self.asked.append(("transactions", longer_than_ms, pattern))
        return [
            TransactionListing(one.transactional_id, 1, one.producer_id, one.state)
            for one in self.transactions.values()
            if not producer_ids or one.producer_id in producer_ids
        ]

    async def describe_transactions(
        self, names: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        return {name: self.transactions[name] for name in names}

    async def describe_producers(
        self, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, list[ActiveProducer]]:
        return {one: self.producers.get(one, []) for one in partitions}

    async def abort_transaction(self, transaction: OpenTransaction) -> None:
        self.asked.append(("abort", *transaction))

    async def delete_records(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        self.asked.append(("records", dict(offsets)))
        if B0 in offsets:
            raise AdminError({"b-0": ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, "too far")})
        return {one: 10 if offset < 0 else offset for one, offset in offsets.items()}

    async def describe_lag(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, PartitionLag | ApiError]:
        return {one: self.lags[one] for one in offsets}

    async def describe_log_dirs(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, dict[str, LogDirectory]]:
        replicas = {A0: ReplicaInfo(77, 3, False), B0: ReplicaInfo(5, 0, True)}
        lost = LogDirectory(ApiError(ErrorCode.KAFKA_STORAGE_ERROR), {}, None, None)
        found = {"/d1": LogDirectory(None, replicas, 1000, 10), "/d0": lost}
        return dict.fromkeys(broker_ids, found)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> GroupAdmin:
    fake = GroupAdmin()
    monkeypatch.setattr("minikafka.client.admin.admin.Admin", fake)
    return fake


def member(name: str, *partitions: TopicPartition, instance: str | None = None) -> GroupMember:
    return GroupMember(name, instance, f"client-{name}", "/10.0.0.1", partitions)


# -- consumer-groups: looking


def test_groups_of_consumers_are_listed(run: Run, admin: GroupAdmin) -> None:
    admin.add("g2", "Stable")
    admin.add("g1", "Empty")
    assert run(*GROUPS, "--list") == (0, "g1\ng2\n", "")
    code, out, _ = run(*GROUPS, "--list", "--state", "--type")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["GROUP", "TYPE", "STATE"],
        ["g1", "Classic", "Empty"],
        ["g2", "Classic", "Stable"],
    ]
    assert run(*GROUPS, "--list", "--state", "stable,EMPTY").code == 0
    assert admin.asked[-1] == ("list", ["Stable", "Empty"], [])
    code, _, err = run(*GROUPS, "--list", "--state", "asleep")
    assert code == 2
    assert "Invalid state list 'asleep'. Valid states are: Stable, Empty" in err


def test_offsets_and_lag_are_described(run: Run, admin: GroupAdmin) -> None:
    admin.add("g", "Stable", member("m1", A0), member("m2"))
    admin.offsets["g"] = {A0: OffsetAndMetadata(40, "", 7), B0: OffsetAndMetadata(100)}
    code, out, err = run(*GROUPS, "--describe", "--group", "g")
    assert (code, err) == (0, "")
    assert out.startswith("\nGROUP ")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert rows == [
        [
            *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"),
            *("CONSUMER-ID", "HOST", "CLIENT-ID"),
        ],
        ["g", "a", "0", "40", "100", "60", "m1", "/10.0.0.1", "client-m1"],
        ["g", "-", "-", "-", "-", "-", "m2", "/10.0.0.1", "client-m2"],
        ["g", "b", "0", "100", "100", "0", "-", "-", "-"],
    ]
    out = run(*GROUPS, "--describe", "--group", "g", "--offsets", "--verbose").out
    assert out.splitlines()[2].split()[2:5] == ["0", "7", "40"]


def test_offsets_in_a_topic_that_is_gone_have_no_end(run: Run, admin: GroupAdmin) -> None:
    admin.add("g", "Empty")
    admin.offsets["g"] = {TopicPartition("gone", 0): OffsetAndMetadata(4)}
    code, out, err = run(*GROUPS, "--describe", "--group", "g")
    assert code == 0
    assert err == "\nConsumer group 'g' has no active members.\n"
    assert out.splitlines()[2].split() == ["g", "gone", "0", "4", "-", "-", "-", "-", "-"]


def test_lag_is_described_in_other_measures(run: Run, admin: GroupAdmin) -> None:
    admin.add("g", "Stable", member("m1", A0, A1), member("m2"))
    admin.offsets["g"] = {A0: OffsetAndMetadata(40), B0: OffsetAndMetadata(100)}
    admin.lags = {
        A0: PartitionLag(40, 100, 98, 58, 7_000, 2.25),
        B0: PartitionLag(0, 100, 98, 90, 9_000, 86_400.0, True),
    }
    _, out, _ = run(*GROUPS, "--describe", "--group", "g", "--lag")
    table = [line.split() for line in out.splitlines()[1:]]
    assert [row[3:9] for row in table] == [
        ["CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "LAG-RECORDS", "LAG-BYTES", "LAG-SECONDS"],
        ["40", "100", "60", "58", "7000", "2.2"],
        ["-", "100", "-", "-", "-", "-"],
        ["-", "-", "-", "-", "-", "-"],
        ["100", "100", "0", "~90", "~9000", "86400.0"],
    ]
    assert [row[-3] for row in table] == ["CONSUMER-ID", "m1", "m1", "m2", "-"]
    admin.lags = {A0: PartitionLag(40, 100), B0: ApiError(ErrorCode.REQUEST_TIMED_OUT)}
    _, out, _ = run(*GROUPS, "--describe", "--group", "g", "--lag", "--verbose")
    measures = [line.split()[7:10] for line in out.splitlines()[2:]]
    assert measures == [["-", "-", "-"]] * 4, "of another cluster, and of a broker that is silent"
    for refused in ("--members", "--state"):
        code, _, err = run(*GROUPS, "--describe", "--group", "g", "--lag", refused)
        assert code == 2
        assert "--lag needs --describe, and goes with --offsets alone" in err
    assert run(*GROUPS, "--list", "--lag").code == 2


def test_members_are_described(run: Run, admin: GroupAdmin) -> None:
    admin.add("g", "Stable", member("m1", A0, A1, B0, instance="i1"), member("m2"))
    _, out, _ = run(*GROUPS, "--describe", "--group", "g", "--members", "--verbose")
    assert [line.split() for line in out.splitlines()[1:]] == [
        [
            *("GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"),
            *("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"),
        ],
        ["g", "m1", "i1", "/10.0.0.1", "client-m1", "3", "-", "a:0,1;b:0", "-", "-"],
        ["g", "m2", "/10.0.0.1", "client-m2", "0", "-", "-", "-", "-"],
    ]


def test_states_of_all_groups_are_described(run: Run, admin: GroupAdmin) -> None:
    admin.add("g1", "Stable", member("m1", A0))
    admin.add("g2", "PreparingRebalance")
    code, out, err = run(*GROUPS, "--describe", "--all-groups", "--state")
    assert code == 0
    assert err == "\nWarning: Consumer group 'g2' is rebalancing.\n"
    lines = [line.split() for line in out.splitlines() if line]
    assert lines[0] == ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    assert lines[1] == ["g1", "h:9094", "(2)", "range", "Stable", "1"]
    assert lines[3][0] == "g2"


def test_a_group_that_is_not_there_is_an_error(run: Run, admin: GroupAdmin) -> None:
    code, out, err = run(*GROUPS, "--describe", "--group", "nobody")
    assert (code, out) == (1, "")
    assert err == "\nError: Consumer group 'nobody' does not exist.\n"


# -- consumer-groups: changing


def test_groups_are_deleted(run: Run, admin: GroupAdmin) -> None:
    code, out, _ = run(*GROUPS, "--delete", "--group", "g1", "--group", "g2")
    assert (code, out) == (
        0,
        "Deletion of requested consumer groups ('g1', 'g2') was successful.\n",
    )
    admin.refusals = {"g1": ApiError(ErrorCode.NON_EMPTY_GROUP)}
    code, out, err = run(*GROUPS, "--delete", "--group", "g1", "--group", "g2")
    assert code == 1
    assert "* Group 'g1' could not be deleted due to: NON_EMPTY_GROUP" in err
    assert out == "\nThese consumer groups were deleted successfully: 'g2'\n"


def test_offsets_are_forgotten(run: Run, admin: GroupAdmin) -> None:
    code, out, _ = run(*GROUPS, "--delete-offsets", "--group", "g", "--topic", "a:1")
    assert code == 0
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["TOPIC", "PARTITION", "STATUS"],
        ["a", "1", "Successful"],
    ]
    assert admin.asked == [("forget", "g", [A1])]
    admin.refusals = {"a-0": ApiError(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)}
    code, out, _ = run(*GROUPS, "--delete-offsets", "--group", "g", "--topic", "a")
    assert code == 1
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in out


RESETS = [
    (("--to-earliest",), 10),
    (("--to-latest",), 100),
    (("--to-current",), 40),
    (("--to-offset", 55), 55),
    (("--to-offset", 5), 10),
    (("--to-offset", 5000), 100),
    (("--shift-by", -20), 20),
    (("--shift-by", 20), 60),
    (("--shift-by", -900), 10),
    (("--to-datetime", "1970-01-01T00:00:42.500"), 43),
    (("--to-datetime", "1970-01-01T01:00:42.000+01:00"), 42),
    (("--to-datetime", "2200-01-01T00:00:00.000"), 100),
    (("--by-duration", "PT0S"), 100),
]


@pytest.mark.parametrize(("scenario", "offset"), RESETS)
def test_every_scenario_of_a_reset(
    run: Run, admin: GroupAdmin, scenario: tuple[object, ...], offset: int
) -> None:
    admin.add("g", "Empty")
    admin.offsets["g"] = {A0: OffsetAndMetadata(40)}
    command = (*GROUPS, "--reset-offsets", "--group", "g", "--all-topics", *scenario)
    code, out, err = run(*command)
    assert code == 0
    assert "No action will be performed" in err
    assert out.splitlines()[2].split() == ["g", "a", "0", str(offset)]
    assert ("alter", "g", {A0: offset}) not in admin.asked
    code, out, err = run(*command, "--execute")
    assert code == 0
    assert "No action" not in err
    assert admin.asked[-1] == ("alter", "g", {A0: offset})


def test_a_reset_goes_out_and_comes_back_as_csv(
    run: Run, admin: GroupAdmin, tmp_path: Path
) -> None:
    admin.add("g", "Empty")
    reset = (*GROUPS, "--reset-offsets", "--group", "g", "--dry-run")
    code, out, err = run(*reset, "--topic", "a", "--topic", "b:0", "--to-earliest", "--export")
    assert (code, out, err) == (0, "a,0,10\na,1,10\nb,0,10\n", "")
    file = tmp_path / "offsets.csv"
    file.write_text("a,0,50\nb,0,500\n")
    code, out, err = run(*reset, "--from-file", file)
    assert [line.split()[1:] for line in out.splitlines()[2:]] == [
        ["a", "0", "50"],
        ["b", "0", "100"],
    ]
    assert "higher than latest offset for topic partition b-0. Value will be set to 100" in err


def test_a_group_with_members_is_not_reset(run: Run, admin: GroupAdmin) -> None:
    admin.add("g", "Stable", member("m", A0))
    command = (*GROUPS, "--reset-offsets", "--group", "g", "--all-topics", "--to-latest")
    code, _, err = run(*command, "--execute")
    assert code == 1
    assert "can only be reset if the group 'g' is inactive" in err
    assert "current state is Stable" in err
    assert not [one for one in admin.asked if one[0] == "alter"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Command must include exactly one action: --list, --describe, --delete"),
        (("--list", "--describe"), "exactly one action"),
        (("--describe",), "--group or --all-groups is needed"),
        (("--describe", "--group", "g", "--all-groups"), "exclude each other"),
        (("--describe", "--group=g", "--members", "--state"), "only one of --offsets"),
        (("--reset-offsets", "--group", "g"), "needs exactly one of --to-earliest"),
        (("--reset-offsets", "--group=g", "--to-latest", "--to-offset=1"), "exactly one of"),
        (
            ("--reset-offsets", "--group=g", "--to-latest", "--dry-run", "--execute"),
            "exclude each other",
        ),
        (("--reset-offsets", "--group=g", "--to-datetime=soon"), "must look like 2026-01-31"),
        (("--reset-offsets", "--group=g", "--by-duration=5m"), "must look like P1DT2H3M4S"),
        (("--reset-offsets", "--group=g", "--to-latest"), "--topic or --all-topics is needed"),
    ],
)
def test_what_consumer_groups_cannot_do(
    run: Run, admin: GroupAdmin, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*GROUPS, *arguments)
    assert (code, out) == (2, "")
    assert words in err


def test_an_expression_is_validated(run: Run) -> None:
    assert run(*GROUPS, "--validate-regex", "a.*").code == 0
    assert run(*GROUPS, "--validate-regex", "a(").code == 1


def test_pure_parts_of_resets() -> None:
    assert datetime_ms("1970-01-01T00:00:01.250Z") == 1250
    assert duration_ms("P1DT1H1M1.5S") == 86_400_000 + 3_600_000 + 60_000 + 1_500
    assert duration_ms("-PT1S") == -1000
    for bad in ("P", "PT", "1D", "PT1X"):
        with pytest.raises(ConfigError):
            duration_ms(bad)
    offsets = {"g,1": {A0: 5}, "h": {B0: 7}}
    assert read_csv(csv_text(offsets, with_group=True), ["g,1", "h"]) == offsets
    assert read_csv("a,0,5\n\n", ["g"]) == {"g": {A0: 5}}
    with pytest.raises(ConfigError, match="line 2"):
        read_csv("a,0,5\na,x,5\n", ["g"])
    with pytest.raises(ConfigError, match="line 1"):
        read_csv("a,0,5\n", ["g", "h"])
    with pytest.raises(ConfigError, match="has no committed offset"):
        new_offset(Scenario.SHIFT, 1, A0, Bounds(0, 10, None))
    assert new_offset(Scenario.CURRENT, 0, A0, Bounds(0, 10, None)) == (10, None)


# -- groups


def test_groups_of_every_type_are_listed(run: Run, admin: GroupAdmin) -> None:
    admin.add("g", "Stable")
    code, out, _ = run("groups", *AT, "--list")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["GROUP", "TYPE", "PROTOCOL"],
        ["g", "Classic", "consumer"],
        ["workers", "Classic", "connect"],
    ]
    assert "workers" not in run("groups", *AT, "--list", "--consumer").out
    assert "workers" in run("groups", *AT, "--list", "--protocol", "connect").out
    assert len(run("groups", *AT, "--list", "--share").out.splitlines()) == 1
    assert run("groups", *AT).code == 2
    assert run("groups", *AT, "--list", "--share", "--consumer").code == 2


# -- transactions


def ongoing(name: str, producer_id: int, *partitions: TopicPartition) -> TransactionDescription:
    return TransactionDescription(name, 1, "Ongoing", producer_id, 4, 60_000, 1000, partitions)


def test_transactions_are_listed_and_described(run: Run, admin: GroupAdmin) -> None:
    admin.transactions["t1"] = ongoing("t1", 9, A0, B0)
    code, out, _ = run(*TRANSACTIONS, "list", "--duration-filter", 5)
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"],
        ["t1", "1", "9", "Ongoing"],
    ]
    assert admin.asked == [("transactions", 5, None)]
    out = run(*TRANSACTIONS, "describe", "--transactional-id", "t1").out
    row = out.splitlines()[1].split()
    assert row[:7] == ["1", "t1", "9", "4", "Ongoing", "60000", "1000"]
    assert row[8] == "a-0,b-0"


def test_producers_of_a_partition_are_described(run: Run, admin: GroupAdmin) -> None:
    admin.producers[A0] = [ActiveProducer(9, 4, 17, 1000, None, 55)]
    out = run(*TRANSACTIONS, "describe-producers", "--topic", "a", "--partition", 0).out
    assert out.splitlines()[1].split() == ["9", "4", "-1", "17", "1000", "55"]


def test_hanging_transactions_are_found_and_aborted(run: Run, admin: GroupAdmin) -> None:
    old, known = ActiveProducer(9, 4, 17, 1000, None, 55), ActiveProducer(8, 1, 2, 1000, 3, 60)
    admin.producers = {A0: [old, known], A1: [old._replace(transaction_start_offset=None)]}
    admin.transactions["t8"] = ongoing("t8", 8, A0)
    code, out, _ = run(*TRANSACTIONS, "find-hanging", "--topic", "a")
    assert code == 0
    (row,) = [line.split() for line in out.splitlines()[1:]]
    assert row[:7] == ["a", "0", "9", "4", "-1", "55", "1000"]
    abort = (*TRANSACTIONS, "abort", "--topic", "a", "--partition", 0)
    assert run(*abort, "--start-offset", 55).code == 0
    assert admin.asked[-1] == ("abort", A0, 9, 4, 0)
    code, _, err = run(*abort, "--start-offset", 56)
    assert code == 1
    assert "Could not find any open transactions starting at offset 56" in err
    older = ("--producer-id", 9, "--producer-epoch", 4, "--coordinator-epoch", -1)
    assert run(*abort, *older).code == 0
    assert admin.asked[-1] == ("abort", A0, 9, 4, 0)
    assert run(*abort, "--producer-id", 9).code == 2
    assert run(*TRANSACTIONS, "find-hanging").code == 2


def test_only_what_is_open_for_long_can_hang() -> None:
    found = ActiveProducer(1, 0, 0, 1000, None, 5)
    assert open_too_long({A0: [found]}, 1001) == [(A0, found)]
    assert open_too_long({A0: [found]}, 1000) == []
    assert open_too_long({A0: [found._replace(transaction_start_offset=None)]}, 2000) == []


# -- logs


def test_records_are_deleted_as_a_file_says(run: Run, admin: GroupAdmin, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    rows = [
        {"topic": "a", "partition": 0, "offset": 50},
        {"topic": "a", "partition": 1, "offset": -1},
    ]
    file.write_text(json.dumps({"partitions": rows, "version": 1}))
    command = ("delete-records", *AT, "--offset-json-file", file)
    assert run(*command) == (
        0,
        "Executing records delete operation\nRecords delete operation completed:\n"
        "partition: a-0\tlow_watermark: 50\npartition: a-1\tlow_watermark: 10\n",
        "",
    )
    rows.append({"topic": "b", "partition": 0, "offset": 5000})
    file.write_text(json.dumps({"partitions": rows}))
    code, out, _ = run(*command)
    assert code == 1
    assert "partition: b-0\terror: too far" in out
    for bad in ("{", '{"partitions": []}', '{"partitions": [{"topic": "a", "partition": 0}]}'):
        file.write_text(bad)
        assert run(*command).code == 2
    file.write_text(json.dumps({"partitions": rows[:1] * 2}))
    assert "named twice" in run(*command).err


def test_offsets_are_printed_for_what_is_asked(run: Run, admin: GroupAdmin) -> None:
    assert run("get-offsets", *AT).out == "a:0:100\na:1:100\nb:0:100\n"
    assert run("get-offsets", *AT, "--topic", "a", "--partitions", "1").out == "a:1:100\n"
    rules = ("get-offsets", *AT, "--time", "earliest", "--topic-partitions")
    assert run(*rules, "a:0,b.*").out == "a:0:10\nb:0:10\n"
    assert run(*rules, "a:1-").out == "a:1:10\n"
    assert run(*rules, ":-1").out == "a:0:10\nb:0:10\n"
    assert run("get-offsets", *AT, "--topic", "b", "--time", "200000").out == "b:0:\n"
    code, _, err = run("get-offsets", *AT, "--topic", "none")
    assert code == 1
    assert "Could not match any topic-partitions" in err
    assert run("get-offsets", *AT, "--topic", "a", "--topic-partitions", "a").code == 2


def test_what_get_offsets_cannot_read() -> None:
    assert time_of("MAX-timestamp") == -3
    for bad in ("soon", "-6"):
        with pytest.raises(ConfigError):
            time_of(bad)
    for rules in ("a:b-", "a:-", "(:0"):
        with pytest.raises(ConfigError):
            rules_of(None, None, rules)


def test_directories_are_one_line_of_json(run: Run, admin: GroupAdmin) -> None:
    code, out, _ = run("log-dirs", *AT, "--describe", "--broker-list", "1", "--topic-list", "a")
    assert code == 0
    assert out.splitlines()[:2] == [
        "Querying brokers for log directories information",
        "Received log directory information from brokers 1",
    ]
    (broker,) = json.loads(out.splitlines()[2])["brokers"]
    replica = {"partition": "a-0", "size": 77, "offsetLag": 3, "isFuture": False}
    assert broker["logDirs"] == [
        {"logDir": "/d0", "error": "KAFKA_STORAGE_ERROR", "partitions": []},
        {"logDir": "/d1", "error": None, "partitions": [replica]},
    ]
    code, _, err = run("log-dirs", *AT, "--describe", "--broker-list", "1,77")
    assert code == 1
    assert "do not exist from --broker-list: 77" in err
    assert run("log-dirs", *AT).code == 2
