"""Moves between the directories of one broker, by `log-dirs` and `reassign-partitions`."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from minikafka.client.admin.config_types import ConfigResource
from minikafka.client.admin.log_types import LogDirectory, ReplicaInfo, TopicPartitionReplica
from minikafka.client.cli.directory_moves import RATE, paths_in, status_line
from minikafka.client.errors import AdminError
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError

from .conftest import Run
from .fake_admin import FakeAdmin

AT = ("--bootstrap-server", "localhost:9092")
TO = ("reassign-partitions", *AT)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ONE, TWO = "/disk1", "/disk2"
HERE, MOVING = ReplicaInfo(77, 0, False), ReplicaInfo(5, 72, True)


class DirectoryAdmin(FakeAdmin):
    """Brokers with two directories; a replica that is asked for is on its way at once."""

    def __init__(self) -> None:
        super().__init__()
        self.placement = {A0: (1, 2), A1: (2, 3), B0: (1, 3)}
        self.directories: dict[int, dict[str, LogDirectory]] = {
            broker: {
                ONE: LogDirectory(
                    None,
                    {name: HERE for name, brokers in self.placement.items() if broker in brokers},
                    1000,
                    500,
                ),
                TWO: LogDirectory(None, {}, 1000, 500),
            }
            for broker in self.racks
        }
        self.refused_paths: dict[str, ApiError] = {}
        self.arrives_after = 0
        """The number of requests for a replica that is not on its broker before it is there."""

    async def describe_log_dirs(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] | None = None
    ) -> dict[int, dict[str, LogDirectory]]:
        return {broker: self.directories[broker] for broker in broker_ids}

    async def alter_replica_log_dirs(self, paths: Mapping[TopicPartitionReplica, str]) -> None:
        self.asked.append(("move", {str(one): path for one, path in paths.items()}))
        refused: dict[str, ApiError] = {}
        for topic, index, broker in paths:
            if broker not in self.placement[TopicPartition(topic, index)] and self.arrives_after:
                name = str(TopicPartitionReplica(topic, index, broker))
                refused[name] = ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        self.arrives_after = max(self.arrives_after - 1, 0)
        refused |= self.refused_paths
        if refused:
            raise AdminError(refused)

    def put(self, broker: int, path: str, replicas: Mapping[TopicPartition, ReplicaInfo]) -> None:
        before = self.directories[broker][path]
        self.directories[broker][path] = before._replace(replicas=replicas)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> DirectoryAdmin:
    fake = DirectoryAdmin()
    monkeypatch.setattr("minikafka.client.admin.admin.Admin", fake)
    return fake


def plan(tmp_path: Path, *entries: tuple[str, int, list[int], list[Any]]) -> Path:
    partitions = [
        {"topic": topic, "partition": index, "replicas": replicas, "log_dirs": paths}
        for topic, index, replicas, paths in entries
    ]
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return path


# -- log-dirs --alter


def test_all_of_a_directory_is_moved_except_what_is_on_its_way(
    run: Run, admin: DirectoryAdmin
) -> None:
    alter = ("log-dirs", *AT, "--alter", "--broker-list", "1", "--to-dir", TWO)
    code, out, err = run(*alter, "--from-dir", ONE)
    assert (code, err) == (0, "")
    assert admin.asked == [("move", {"a-0-1": TWO, "b-0-1": TWO})]
    assert out.splitlines()[0] == (
        f"Successfully started moving log directory to {TWO} for replica a-0 with broker 1 "
    )
    admin.asked.clear()
    admin.put(1, TWO, {A0: MOVING})
    assert run(*alter, "--from-dir", ONE).code == 0
    assert (
        run(*alter, "--topic-list", "a").out == f"No replica of broker 1 is to be moved to {TWO}\n"
    )
    assert admin.asked == [("move", {"b-0-1": TWO})]


@pytest.mark.parametrize(
    ("flags", "code", "why"),
    [
        (("--alter", "--broker-list", "1", "--to-dir", TWO), 2, "--from-dir or --topic-list"),
        (("--alter", "--broker-list", "1,2", "--to-dir", TWO), 2, "needs one broker"),
        (("--alter", "--describe"), 2, "exactly one of --describe and --alter"),
        (("--describe", "--to-dir", TWO), 2, "belong to --alter"),
        (
            ("--alter", "--broker-list", "1", "--to-dir", "/no", "--topic-list", "a"),
            1,
            f"broker 1 has no directory /no; it has {ONE}, {TWO}",
        ),
    ],
)
def test_what_log_dirs_refuses(
    run: Run, admin: DirectoryAdmin, flags: tuple[str, ...], code: int, why: str
) -> None:
    result = run("log-dirs", *AT, *flags)
    assert (result.code, why in result.err) == (code, True)
    assert admin.asked == []


# -- reassign-partitions


def test_a_plan_moves_replicas_to_directories_and_new_ones_begin_there(
    run: Run, admin: DirectoryAdmin, tmp_path: Path
) -> None:
    path = plan(tmp_path, ("a", 0, [1, 4], [TWO, TWO]), ("b", 0, [1, 3], ["any", "any"]))
    admin.arrives_after = 2
    flags = ("--reassignment-json-file", path, "--replica-alter-log-dirs-throttle", 500)
    code, out, err = run(*TO, "--execute", *flags)
    assert (code, err) == (0, "")
    assert "The replica-alter-dir throttle limit was set to 500 B/s" in out
    before = json.loads(out.splitlines()[2])["partitions"]
    assert [each["log_dirs"] for each in before] == [[ONE, ONE], [ONE, ONE]], "the way back"
    assert out.splitlines()[-2:] == [
        f"Successfully started moving log directory to {TWO} for replica a-0 with broker {broker} "
        for broker in (1, 4)
    ]
    changes = [asked for asked in admin.asked if asked[0] != "move"]
    moves = [asked[1] for asked in admin.asked if asked[0] == "move"]
    assert [asked[0] for asked in admin.asked][-3:] == ["reassign", "move", "move"]
    assert moves == [{"a-0-4": TWO}, {"a-0-1": TWO, "a-0-4": TWO}, {"a-0-4": TWO}]
    assert len(changes) == 2
    for broker in (1, 4):
        assert admin.configs[ConfigResource.broker(broker)] == {RATE: "500"}


def test_what_is_not_there_in_time_and_what_is_refused_is_told(
    run: Run, admin: DirectoryAdmin, tmp_path: Path
) -> None:
    path = plan(tmp_path, ("a", 0, [1, 4], ["any", TWO]))
    admin.arrives_after = 1000
    flags = ("--reassignment-json-file", path, "--timeout", 150)
    code, _, err = run(*TO, "--execute", *flags)
    assert code == 1
    assert "Timed out before log directory move could be started for: a-0-4" in err
    admin.refused_paths = {"a-0-4": ApiError(ErrorCode.LOG_DIR_NOT_FOUND)}
    code, _, err = run(*TO, "--execute", *flags)
    assert code == 1
    assert f"Failed to alter dir for a-0-4 to {TWO}" in err


def test_verify_tells_of_each_directory_and_keeps_throttles_while_one_moves(
    run: Run, admin: DirectoryAdmin, tmp_path: Path
) -> None:
    path = plan(tmp_path, ("a", 0, [1, 2], [TWO, TWO]))
    admin.put(1, TWO, {A0: MOVING})
    code, out, _ = run(*TO, "--verify", "--reassignment-json-file", path)
    assert code == 0
    assert out.splitlines()[2:] == [
        "Reassignment of replica a-0-1 is still in progress.",
        f"Partition a-0 on broker 2 is not being moved from log dir {ONE} to {TWO}.",
    ]
    admin.put(1, ONE, {})
    admin.put(1, TWO, {A0: HERE})
    _, out, _ = run(*TO, "--verify", "--reassignment-json-file", path)
    assert "Reassignment of replica a-0-1 completed successfully." in out
    assert "Clearing broker-level throttles" in out


def test_cancel_asks_for_the_directories_of_before(
    run: Run, admin: DirectoryAdmin, tmp_path: Path
) -> None:
    path = plan(tmp_path, ("a", 0, [1, 2], [TWO, TWO]))
    cancel = ("--cancel", "--reassignment-json-file", path, "--preserve-throttles")
    _, out, _ = run(*TO, *cancel)
    assert out.splitlines()[-1] == "None of the specified partition moves are active."
    admin.put(1, TWO, {A0: MOVING})
    _, out, _ = run(*TO, *cancel)
    assert out.splitlines()[-1].startswith(f"Successfully started moving log directory to {ONE}")
    assert admin.asked == [("move", {"a-0-1": ONE})]


@pytest.mark.parametrize(
    ("paths", "why"),
    [
        ([TWO], "one directory for each replica"),
        (TWO, "one directory for each replica"),
        (["any", "disk2"], "neither an absolute path"),
        (["any", 5], "neither an absolute path"),
    ],
)
def test_directories_that_cannot_be_meant(paths: object, why: str) -> None:
    entry = {"topic": "a", "partition": 0, "replicas": [1, 2], "log_dirs": paths}
    with pytest.raises(ConfigError, match=why):
        paths_in({"partitions": [entry]}, "--file")


def test_a_replica_that_is_nowhere_or_goes_elsewhere_is_told_of() -> None:
    replica = TopicPartitionReplica("a", 0, 1)
    nowhere = {1: {ONE: LogDirectory(None, {}, None, None)}}
    assert "cannot be found in any live" in status_line(replica, TWO, nowhere)
    lost = LogDirectory(ApiError(ErrorCode.KAFKA_STORAGE_ERROR), {}, None, None)
    assert "likely an offline" in status_line(replica, TWO, {1: {ONE: lost}})
    elsewhere = {
        1: {
            ONE: LogDirectory(None, {A0: HERE}, None, None),
            "/disk3": LogDirectory(None, {A0: MOVING}, None, None),
        }
    }
    expected = f"Partition a-0 on broker 1 is being moved to log dir /disk3 instead of {TWO}."
    assert status_line(replica, TWO, elsewhere) == expected
