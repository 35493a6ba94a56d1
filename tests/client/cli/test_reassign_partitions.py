"""What `reassign-partitions` proposes, asks for and prints."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.client.admin.config_types import ConfigResource
from minikafka.client.admin.topic_types import Reassignment
from minikafka.client.cli.reassignment import (
    Move,
    from_json,
    moves_of,
    propose,
    throttled_replicas,
    to_json,
)
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError

from .conftest import Run
from .fake_admin import FakeAdmin

TO = ("reassign-partitions", "--bootstrap-server", "localhost:9092")
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RATES = {
    "leader.replication.throttled.rate": "500",
    "follower.replication.throttled.rate": "500",
}


def line(topic: str, index: int, *replicas: int) -> str:
    entry = {
        "topic": topic,
        "partition": index,
        "replicas": replicas,
        "log_dirs": ["any"] * len(replicas),
    }
    return json.dumps(entry, separators=(",", ":"))


def document(*lines: str) -> str:
    return '{"version":1,"partitions":[' + ",".join(lines) + "]}"


@pytest.fixture
def cluster(admin: FakeAdmin) -> FakeAdmin:
    admin.placement = {A0: (1, 2), A1: (2, 3), B0: (3, 1)}
    return admin


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(document(line("a", 0, 4, 2), line("a", 1, 3, 2)))
    return path


# -- generate


def test_generate_prints_what_is_and_what_could_be(
    run: Run, cluster: FakeAdmin, tmp_path: Path
) -> None:
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "a"}], "version": 1}')
    flags = ("--topics-to-move-json-file", topics, "--broker-list", "3,4")
    code, out, err = run(*TO, "--generate", *flags)
    assert (code, err) == (0, "")
    title, now, empty, second, then = out.splitlines()
    assert title == "Current partition replica assignment"
    assert now == document(line("a", 0, 1, 2), line("a", 1, 2, 3))
    assert empty == ""
    assert second == "Proposed partition reassignment configuration"
    assert then == document(line("a", 0, 4, 3), line("a", 1, 3, 4))
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("brokers", "racks", "words"),
    [
        ("1", {}, "--broker-list=1: replication factor 2 is larger"),
        ("1,9", {}, "Error: Unknown broker id 9"),
        ("1,1", {}, "--broker-list=1,1: names a broker twice"),
        ("1,x", {}, "--broker-list=1,x: must be numbers"),
        ("1,2", {1: "east"}, "Error: Not all brokers have rack information."),
    ],
)
def test_generate_says_why_it_cannot(
    run: Run,
    cluster: FakeAdmin,
    tmp_path: Path,
    brokers: str,
    racks: dict[int, str],
    words: str,
) -> None:
    cluster.racks.update(racks)
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "a"}]}')
    flags = ("--topics-to-move-json-file", topics, "--broker-list", brokers)
    code, out, err = run(*TO, "--generate", *flags)
    assert code > 0
    assert out == ""
    assert words in err


def test_racks_may_be_disregarded(run: Run, cluster: FakeAdmin, tmp_path: Path) -> None:
    cluster.racks[1] = "east"
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "a"}]}')
    flags = ("--topics-to-move-json-file", topics, "--broker-list", "1,2")
    assert run(*TO, "--generate", *flags, "--disable-rack-aware").code == 0


def test_a_new_broker_gets_its_share_and_little_moves() -> None:
    current = {TopicPartition("t", n): (1 + n % 3, 1 + (n + 1) % 3) for n in range(6)}
    proposed = propose(current, dict.fromkeys([1, 2, 3, 4]))
    held = [broker for replicas in proposed.values() for broker in replicas]
    assert sorted(held.count(broker) for broker in (1, 2, 3, 4)) == [3, 3, 3, 3]
    moved = sum(len(set(new) - set(current[where])) for where, new in proposed.items())
    assert moved == 3
    leaders = [replicas[0] for replicas in proposed.values()]
    assert max(leaders.count(broker) for broker in (1, 2, 3, 4)) == 2


def test_what_is_even_already_stays() -> None:
    current = {TopicPartition("t", n): (1 + n, 1 + (n + 1) % 3) for n in range(3)}
    assert propose(current, dict.fromkeys([1, 2, 3])) == current


def test_copies_do_not_share_a_rack() -> None:
    racks = {1: "east", 2: "east", 3: "west", 4: "west"}
    proposed = propose({TopicPartition("t", n): (1, 2) for n in range(4)}, racks)
    for replicas in proposed.values():
        assert {racks[broker] for broker in replicas} == {"east", "west"}


@given(st.data())
def test_a_proposal_is_always_a_placement(data: st.DataObject) -> None:
    brokers = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=7, unique=True))
    racks: dict[int, str | None] = {
        one: data.draw(st.sampled_from(["a", "b", "c"])) for one in brokers
    }
    if data.draw(st.booleans()):
        racks = dict.fromkeys(brokers)
    current = {
        TopicPartition("t", n): tuple(
            data.draw(st.permutations(range(12)))[: data.draw(st.integers(1, len(brokers)))]
        )
        for n in range(data.draw(st.integers(1, 8)))
    }
    proposed = propose(current, racks)
    assert list(proposed) == list(current)
    if not any(racks.values()):
        held = [broker for replicas in proposed.values() for broker in replicas]
        loads = [held.count(broker) for broker in brokers]
        assert max(loads) - min(loads) <= 1
    for where, replicas in proposed.items():
        assert len(set(replicas)) == len(replicas) == len(current[where])
        assert set(replicas) <= set(brokers)
        on = {racks[broker] for broker in replicas}
        if None not in on:
            assert len(on) == min(len(replicas), len(set(racks.values())))


# -- execute


def test_execute_prints_the_way_back_and_begins(run: Run, cluster: FakeAdmin, plan: Path) -> None:
    code, out, err = run(*TO, "--execute", "--reassignment-json-file", plan)
    assert (code, err) == (0, "")
    assert out == (
        "Current partition replica assignment\n\n"
        + document(line("a", 0, 1, 2), line("a", 1, 2, 3))
        + "\n\nSave this to use as the --reassignment-json-file option during rollback\n"
        "Successfully started partition reassignments for a-0,a-1\n"
    )
    assert cluster.asked == [("reassign", {A0: (4, 2), A1: (3, 2)}, True)]


def test_a_throttle_is_set_before_anything_moves(run: Run, cluster: FakeAdmin, plan: Path) -> None:
    flags = ("--reassignment-json-file", plan, "--throttle", 500)
    code, out, _ = run(*TO, "--execute", *flags)
    assert code == 0
    _, _, rest = out.partition("during rollback\n")
    assert rest == (
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure "
        "the throttle is removed.\n"
        "The inter-broker throttle limit was set to 500 B/s\n"
        "Successfully started partition reassignments for a-0,a-1\n"
    )
    assert [one[0] for one in cluster.asked] == ["configs", "reassign"]
    assert cluster.configs[ConfigResource.topic("a")] == {
        "leader.replication.throttled.replicas": "0:1,0:2,1:2,1:3",
        "follower.replication.throttled.replicas": "0:4",
    }
    for broker in (1, 2, 3, 4):
        assert cluster.configs[ConfigResource.broker(broker)] == RATES


def test_one_at_a_time_unless_told(run: Run, cluster: FakeAdmin, plan: Path) -> None:
    cluster.moving = {B0: Reassignment((3, 1, 4), (4,), (1,))}
    code, out, err = run(*TO, "--execute", "--reassignment-json-file", plan)
    assert (code, out) == (1, "")
    assert err.startswith("Error: Cannot execute because there is an existing partition")
    assert cluster.asked == []
    flags = ("--reassignment-json-file", plan, "--additional", "--throttle", 500)
    assert run(*TO, "--execute", *flags).code == 0
    assert cluster.configs[ConfigResource.topic("b")] == {
        "leader.replication.throttled.replicas": "0:1,0:3",
        "follower.replication.throttled.replicas": "0:4",
    }


def test_refusals_are_named(run: Run, cluster: FakeAdmin, plan: Path) -> None:
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    cluster.refused = {"a-1": ApiError(code, "broker 3 is not alive")}
    done = run(*TO, "--execute", "--reassignment-json-file", plan)
    assert done.code == 1
    assert done.out.endswith("Successfully started partition reassignment for a-0\n")
    assert done.err == "Error: Error reassigning partition(s):\na-1: broker 3 is not alive\n"


@pytest.mark.parametrize(
    ("partitions", "words"),
    [
        ([{"topic": "a", "partition": 0, "replicas": [9]}], "Error: Unknown broker id 9"),
        ([{"topic": "a", "partition": 7, "replicas": [1]}], "Error: Unable to find partition a-7"),
        ([{"topic": "z", "partition": 0, "replicas": [1]}], "Error: z: UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_execute_looks_before_it_asks(
    run: Run, cluster: FakeAdmin, tmp_path: Path, partitions: list[object], words: str
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"partitions": partitions}))
    code, out, err = run(*TO, "--execute", "--reassignment-json-file", path)
    assert (code, out) == (1, "")
    assert err.startswith(words)
    assert cluster.asked == []


# -- verify, cancel, list


def test_s_49_verify_tells_each_and_clears_throttles_at_the_end(
    run: Run, cluster: FakeAdmin, plan: Path
) -> None:
    run(*TO, "--execute", "--reassignment-json-file", plan, "--throttle", 500)
    cluster.asked.clear()
    cluster.moving = {A0: Reassignment((4, 2, 1), (4,), (1,))}
    cluster.placement[A1] = (3, 2)
    _, out, _ = run(*TO, "--verify", "--reassignment-json-file", plan)
    assert out == (
        "Status of partition reassignment:\n"
        "Reassignment of partition a-0 is still in progress.\n"
        "Reassignment of partition a-1 is completed.\n\n"
    )
    assert cluster.asked == []
    cluster.moving = {}
    _, out, _ = run(*TO, "--verify", "--reassignment-json-file", plan, "--preserve-throttles")
    assert cluster.asked == []
    _, out, _ = run(*TO, "--verify", "--reassignment-json-file", plan)
    assert out == (
        "Status of partition reassignment:\n"
        "There is no active reassignment of partition a-0, but replica set is 1,2 rather than "
        "4,2.\n"
        "Reassignment of partition a-1 is completed.\n\n"
        "Clearing broker-level throttles on brokers 1,2,3,4\n"
        "Clearing topic-level throttles on topic a\n"
    )
    assert all(config == {} for config in cluster.configs.values())


def test_cancel_gives_back_what_is_moving(run: Run, cluster: FakeAdmin, plan: Path) -> None:
    cluster.moving = {A0: Reassignment((4, 2, 1), (4,), (1,)), B0: Reassignment((3, 1), (1,), ())}
    _, out, _ = run(*TO, "--cancel", "--reassignment-json-file", plan)
    assert out.splitlines()[:2] == [
        "Successfully cancelled partition reassignment for: a-0",
        "None of the specified partition moves are active.",
    ]
    assert cluster.asked[0] == ("reassign", {A0: None}, True)
    cluster.moving = {}
    _, out, _ = run(*TO, "--cancel", "--reassignment-json-file", plan, "--preserve-throttles")
    assert out.splitlines() == [
        f"None of the specified partition {noun} are active." for noun in ("reassignments", "moves")
    ]


def test_list(run: Run, cluster: FakeAdmin) -> None:
    assert run(*TO, "--list").out == "No partition reassignments found.\n"
    cluster.moving = {B0: Reassignment((3, 1), (1,), ()), A0: Reassignment((4, 2, 1), (4,), (1,))}
    assert run(*TO, "--list").out == (
        "Current partition reassignments:\n"
        "a-0: replicas: 4,2,1. adding: 4. removing: 1.\n"
        "b-0: replicas: 3,1. adding: 1.\n"
    )


# -- the pure parts


def test_what_is_written_is_read() -> None:
    placement = {A0: (1, 2), B0: (3,)}
    assert from_json(json.loads(to_json(placement))) == placement


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({}, "must hold a list"),
        ({"partitions": []}, "is empty"),
        ({"partitions": [{"partition": 0, "replicas": [1]}]}, 'needs a text "topic"'),
        ({"partitions": [{"topic": "a", "partition": -1, "replicas": [1]}]}, "needs a number"),
        ({"partitions": [{"topic": "a", "partition": 0}]}, "needs brokers"),
        ({"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}, "needs brokers"),
        ({"partitions": [{"topic": "a", "partition": 0, "replicas": ["1"]}]}, "needs brokers"),
        ({"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}, "broker twice"),
        ({"partitions": [{"topic": "a", "partition": 0, "replicas": [1]}] * 2}, "a second time"),
    ],
)
def test_a_plan_that_cannot_be_meant(found: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        from_json(found)


def test_moves_go_on_from_what_is_moving() -> None:
    moving = {A0: Reassignment((1, 2, 3), (3,), (1,))}
    moves = moves_of(moving, {A0: (1, 2, 3), A1: (2,)}, {A0: (2, 4), A1: (2, 1)})
    assert moves == {A0: Move((1, 2), (3, 4)), A1: Move((2,), (1,))}
    assert throttled_replicas(moves) == {
        "a": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:2",
            "follower.replication.throttled.replicas": "0:3,0:4,1:1",
        }
    }
