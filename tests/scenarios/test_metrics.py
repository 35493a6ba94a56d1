"""Metrics of whole daemons, each moved by what it stands for: deaths, lag, slow and full disks.

What one collector makes of its fields is tested in its room (tests/broker, tests/controller).
"""

import asyncio
import errno

import pytest

from minikafka.protocol.types import TopicPartition

from ..simulation.scraper import METRICS, exposition
from ..simulation.stage import Stage, Who, staged
from ..support.scrape import Scrape

REPLICAS = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
OWN = "minikafka_controller_"
CONTROLLERS = ("controller-1", "controller-2", "controller-3")
T0: dict[str, str | int] = {"topic": "t", "partition": 0}
MIN_2 = {"min.insync.replicas": "2"}


def told(stage: Stage, who: Who) -> Scrape:
    text = exposition(stage.daemon(who))
    assert text is not None, f"{who} does not answer"
    return Scrape.of(text)


def read(stage: Stage, who: Who, name: str, **labels: str | int) -> float:
    return told(stage, who)(name, **labels)


async def becomes(stage: Stage, who: Who, name: str, value: float, **labels: str | int) -> None:
    """Wait until a daemon tells this value."""
    await stage.until(
        lambda: told(stage, who).every(name, **labels) == [value], f"{who}: {name} is {value}"
    )


def of_replicas(stage: Stage, who: Who) -> list[float]:
    found = told(stage, who)
    names = ("underreplicatedpartitions", "atminisrpartitioncount", "underminisrpartitioncount")
    return [found(REPLICAS + name) for name in names]


@pytest.mark.moves(
    "kafka_brokers",
    "kafka_cluster_partition_atminisr",
    "kafka_cluster_partition_underminisr",
    "kafka_server_replicamanager_atminisrpartitioncount",
    "kafka_server_replicamanager_underminisrpartitioncount",
    "kafka_server_replicamanager_underreplicatedpartitions",
    "kafka_topic_partition_in_sync_replica",
    "kafka_topic_partition_under_replicated_partition",
)
@staged(broker=METRICS, controller=METRICS)
async def test_followers_that_are_killed_are_missed_until_they_are_back(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    in_sync = "kafka_topic_partition_in_sync_replica"
    assert of_replicas(stage, 1) == [0, 0, 0]
    assert read(stage, 1, in_sync, **T0) == 3
    stage.kill(3)
    await becomes(stage, 1, in_sync, 2, **T0)
    one = told(stage, 1)
    assert of_replicas(stage, 1) == [1, 1, 0]
    assert one("kafka_cluster_partition_atminisr", **T0) == 1
    assert one("kafka_topic_partition_under_replicated_partition", **T0) == 1
    stage.kill(2)
    await becomes(stage, 1, in_sync, 1, **T0)
    two = told(stage, 1)
    assert of_replicas(stage, 1) == [1, 0, 1]
    assert two("kafka_cluster_partition_underminisr", **T0) == 1
    assert two("kafka_brokers") == 1
    stage.start(2, 3)
    await becomes(stage, 1, in_sync, 3, **T0)
    assert of_replicas(stage, 1) == [0, 0, 0]
    assert read(stage, 1, "kafka_brokers") == 3


@pytest.mark.moves(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    "kafka_controller_kafkacontroller_activebrokercount",
    "kafka_controller_kafkacontroller_fencedbrokercount",
    "kafka_controller_kafkacontroller_offlinepartitionscount",
    "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
    "kafka_controller_kafkacontroller_timedoutbrokerheartbeatcount",
    "kafka_server_replicamanager_leadercount",
    "kafka_topic_partition_leader",
    "kafka_topic_partition_leader_is_preferred",
    "minikafka_controller_broker_fenced",
    "minikafka_controller_connections",
    "minikafka_controller_isr_expands_total",
    "minikafka_controller_isr_shrinks_total",
    "minikafka_controller_leaders_elected_total",
    "minikafka_controller_leaders_lost_total",
)
@staged(brokers=2, broker=METRICS, controller=METRICS)
async def test_leaders_that_are_killed_are_replaced_and_the_last_one_is_missed(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2]])

    def of_controller() -> dict[str, float]:
        found = told(stage, "controller-1")
        told_of = {
            "active": found(f"{CONTROLLER}activebrokercount"),
            "fenced": found(f"{CONTROLLER}fencedbrokercount"),
            "offline": found(f"{CONTROLLER}offlinepartitionscount"),
            "imbalanced": found(f"{CONTROLLER}preferredreplicaimbalancecount"),
            "timed out": found(f"{CONTROLLER}timedoutbrokerheartbeatcount"),
            "elected": found(f"{OWN}leaders_elected_total"),
            "lost": found(f"{OWN}leaders_lost_total"),
            "shrunk": found(f"{OWN}isr_shrinks_total"),
            "expanded": found(f"{OWN}isr_expands_total"),
        }
        return {name: value for name, value in told_of.items() if value}

    of_elections = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
    began = told(stage, "controller-1")
    assert read(stage, 1, f"{REPLICAS}leadercount") == 1
    assert read(stage, 1, "kafka_topic_partition_leader_is_preferred", **T0) == 1
    assert read(stage, 2, f"{REPLICAS}leadercount") == 0
    assert of_controller() == {"active": 2}
    stage.kill(1)
    await becomes(stage, 2, "kafka_topic_partition_leader", 2, **T0)
    assert read(stage, 2, f"{REPLICAS}leadercount") == 1
    assert read(stage, 2, "kafka_topic_partition_leader_is_preferred", **T0) == 0
    moved = {"imbalanced": 1, "timed out": 1, "elected": 1, "shrunk": 1}
    assert of_controller() == {"active": 1, "fenced": 1, **moved}
    after = told(stage, "controller-1")
    assert after(of_elections) == began(of_elections) + 1
    assert after(f"{OWN}broker_fenced", broker=1) == 1
    assert after(f"{OWN}connections") < began(f"{OWN}connections")
    stage.kill(2)
    await becomes(stage, "controller-1", f"{CONTROLLER}offlinepartitionscount", 1)
    lost = {**moved, "timed out": 2, "shrunk": 2, "offline": 1, "lost": 1}
    assert of_controller() == {"fenced": 2, **lost}
    stage.start(1, 2)
    await stage.until(lambda: len(stage.state("t").isr) == 2, "both are in sync")
    back = of_controller()
    assert "offline" not in back
    assert (back["active"], back["elected"], back["expanded"]) == (2, 2, 2)


@pytest.mark.moves(
    "kafka_server_replicamanager_isrexpands_total",
    "kafka_server_replicamanager_isrshrinks_total",
    "minikafka_follower_lag_milliseconds",
    "minikafka_follower_lag_records",
)
@staged(broker=METRICS)
async def test_a_follower_that_is_cut_off_lags_and_leaves_the_isr_until_it_has_caught_up(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    await stage.send("t", b"0")
    records, late = "minikafka_follower_lag_records", "minikafka_follower_lag_milliseconds"
    await becomes(stage, 1, records, 0, follower=3)
    stage.cut(1, 3)
    await stage.send("t", b"1", b"2", acks="1")
    await stage.sleep(1)
    cut_off = told(stage, 1)
    assert cut_off(records, follower=3) == 2
    assert 500 < cut_off(late, follower=3) < 2_000
    assert cut_off(records, follower=2) == 0
    await becomes(stage, 1, f"{REPLICAS}isrshrinks_total", 1)
    assert read(stage, 1, f"{REPLICAS}isrexpands_total") == 0
    stage.heal()
    await becomes(stage, 1, f"{REPLICAS}isrexpands_total", 1)
    back = told(stage, 1)
    assert (back(records, follower=3), back(late, follower=3)) == (0, 0)


@pytest.mark.moves("kafka_server_replicamanager_failedisrupdates_total")
@staged(broker=METRICS)
async def test_a_proposal_that_comes_after_the_death_of_its_follower_is_refused(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    stage.cut(1, 3)
    await stage.send("t", b"0", acks="1")
    await stage.until(lambda: 3 not in stage.state("t").isr, "it has left the ISR")
    stage.delay(1, "controller-1", 0.3)
    stage.heal()
    leader = stage.partition(1, "t").leader
    assert leader is not None
    await stage.until(lambda: leader.proposal is not None, "it is proposed again")
    stage.kill(3)
    await becomes(stage, 1, f"{REPLICAS}failedisrupdates_total", 1)
    assert read(stage, 1, f"{REPLICAS}isrexpands_total") == 0


@pytest.mark.moves(
    "kafka_server_fetcherlagmetrics_consumerlag", "kafka_server_replicafetchermanager_maxlag"
)
@staged(broker={**METRICS, "replica.fetch.max.bytes": "1000"})
async def test_a_replica_that_was_away_catches_up_fetch_by_fetch(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    stage.kill(3)
    await stage.send("t", *[b"x" * 900] * 100)
    stage.delay(1, 3, 0.05)
    stage.start(3)
    lag, most = (
        "kafka_server_fetcherlagmetrics_consumerlag",
        "kafka_server_replicafetchermanager_maxlag",
    )
    seen = await stage.until(
        lambda: stage.daemon(3).service is not None and (told(stage, 3).every(lag, **T0) or [0])[0],
        "it knows how much it lacks",
    )
    assert 50 < seen < 100
    assert read(stage, 3, most) == seen
    await becomes(stage, 3, lag, 0, **T0)
    assert read(stage, 3, most) == 0


@pytest.mark.moves("kafka_log_logflushstats_logflushrateandtimems")
@staged(broker=METRICS)
async def test_a_slow_disk_shows_in_the_times_of_flushes(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={**MIN_2, "flush.messages": "1"})
    name = "kafka_log_logflushstats_logflushrateandtimems"

    async def flushed() -> float:
        """Milliseconds that a flush took on broker 2, after records came."""
        before = told(stage, 2)
        await stage.send("t", b"x")
        await stage.until(lambda: read(stage, 2, f"{name}_count") > before(f"{name}_count"), "one")
        after = told(stage, 2)
        count = after(f"{name}_count") - before(f"{name}_count")
        return (after(f"{name}_sum") - before(f"{name}_sum")) / count

    quick = await flushed()
    disk = stage.disk(2)
    disk.slow_sync_chance, disk.slow_sync_seconds = 1.0, 0.4
    assert await flushed() > 50 > 20 > quick


@pytest.mark.moves(
    "kafka_controller_controllerstats_leaderelectionrateandtimems",
    "kafka_server_raft_metrics_commit_latency_avg",
    "kafka_server_raftmetrics_commit_latency_avg",
    "minikafka_controller_commit_latency_ms",
    "minikafka_controller_pending_answers",
)
@staged(broker=METRICS, controller=METRICS)
async def test_a_slow_disk_of_the_controller_shows_in_the_latency_of_decisions(
    stage: Stage,
) -> None:
    await stage.create_topic("t", [[1, 2, 3]])
    before = told(stage, "controller-1")
    disk = stage.disk("controller-1")
    disk.slow_sync_chance, disk.slow_sync_seconds = 1.0, 0.8
    making = asyncio.ensure_future(stage.create_topic("u", [[1, 2, 3]]))
    await becomes(stage, "controller-1", f"{OWN}pending_answers", 1)
    await making
    stage.kill(1)
    await stage.until(lambda: stage.state("t").leader != 1, "another one leads")
    await becomes(stage, "controller-1", f"{OWN}pending_answers", 0)
    after = told(stage, "controller-1")
    average = "kafka_server_raft_metrics_commit_latency_avg"
    assert after(average) > before(average) + 10
    for name in (
        f"{OWN}commit_latency_ms",
        "kafka_controller_controllerstats_leaderelectionrateandtimems",
    ):
        assert after(f"{name}_sum") > before(f"{name}_sum") + 50, name


TWO_DISKS = {"log.dirs": "/data/one,/data/two"}


@pytest.mark.moves(
    "kafka_log_logmanager_offlinelogdirectorycount",
    "kafka_server_replicamanager_offlinereplicacount",
    "kafka_server_replicamanager_partitioncount",
)
@staged(broker={**METRICS, **TWO_DISKS})
async def test_a_disk_that_fails_takes_its_replicas_with_it(stage: Stage) -> None:
    await stage.create_topic("t", [[2, 1, 3]] * 4, configs=MIN_2)
    directory = stage.partition(2, "t").log.directory.rpartition("/")[0]
    names = [f"{REPLICAS}partitioncount", f"{REPLICAS}offlinereplicacount"]
    names.append("kafka_log_logmanager_offlinelogdirectorycount")
    assert [read(stage, 2, name) for name in names] == [4, 0, 0]
    disk = stage.disk(2)
    disk.fail_write = lambda path: errno.EIO if path.startswith(directory) else None
    await stage.send("t", b"x")
    assert [read(stage, 2, name) for name in names] == [2, 2, 1]
    disk.mend()
    stage.restart(2)
    await stage.ready(2)
    assert [read(stage, 2, name) for name in names] == [4, 0, 0]


@pytest.mark.moves(
    "kafka_log_log_logendoffset",
    "kafka_log_log_logstartoffset",
    "kafka_log_log_numlogsegments",
    "kafka_log_log_size",
    "kafka_topic_partition_current_offset",
    "kafka_topic_partition_oldest_offset",
    "minikafka_disk_bytes",
    "minikafka_disk_usable_bytes",
)
@staged(broker={**METRICS, "log.retention.check.interval.ms": "1000"})
async def test_records_fill_a_disk_until_retention_makes_room(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3]], configs={**MIN_2, "segment.bytes": "100000"})
    disk = stage.disk(1)
    disk.capacity = 10_000_000
    usable, total = "minikafka_disk_usable_bytes", "minikafka_disk_bytes"
    before = told(stage, 1)
    assert before(total) == 10_000_000
    await stage.send("t", *[b"x" * 9_000] * 100)
    full = told(stage, 1)
    assert full("kafka_log_log_logendoffset", **T0) == 100
    assert full("kafka_topic_partition_current_offset", **T0) == 100
    assert full("kafka_log_log_size", **T0) > 900_000
    assert full("kafka_log_log_numlogsegments", **T0) >= 9
    assert full("kafka_topic_partition_oldest_offset", **T0) == 0
    assert 900_000 < before(usable) - full(usable) < 1_500_000
    settings = {"retention.bytes": "200000", "file.delete.delay.ms": "0"}
    await stage.alter_configs("t", settings)
    await stage.until(lambda: read(stage, 1, usable) > full(usable) + 500_000, "there is room")
    after = told(stage, 1)
    start = after("kafka_log_log_logstartoffset", **T0)
    assert start == after("kafka_topic_partition_oldest_offset", **T0) > 50
    assert after("kafka_log_log_size", **T0) < 400_000
    assert after("kafka_log_log_numlogsegments", **T0) <= 4
    disk.capacity = 20_000_000
    assert read(stage, 1, total) == 20_000_000


@pytest.mark.moves(
    "kafka_controller_kafkacontroller_activecontrollercount",
    "kafka_server_raft_metrics_current_epoch",
    "kafka_server_raft_metrics_current_leader",
    "kafka_server_raft_metrics_current_state_info",
    "kafka_server_raft_metrics_current_vote",
    "kafka_server_raftmetrics_current_epoch",
    "kafka_server_raftmetrics_current_leader",
    "kafka_server_raftmetrics_current_state",
    "kafka_server_raftmetrics_current_vote",
)
@staged(controllers=3, controller=METRICS)
async def test_the_active_controller_is_killed_and_another_one_leads(stage: Stage) -> None:
    gone = stage.active_name()
    assert gone is not None
    prefixes = ("kafka_server_raft_metrics_", "kafka_server_raftmetrics_")
    before = {each: told(stage, each) for each in CONTROLLERS}
    stage.kill(gone)
    leader = await stage.until(stage.active_name, "another one leads")
    assert leader is not None
    me = int(stage.daemon(leader).properties["node.id"])
    then, after = before[leader], told(stage, leader)
    assert then(f"{CONTROLLER}activecontrollercount") == 0
    assert after(f"{CONTROLLER}activecontrollercount") == 1
    info = "kafka_server_raft_metrics_current_state_info"
    assert after(info, state="leader", current_state="leader") == 1
    assert after("kafka_server_raftmetrics_current_state", current_state="leader") == 1
    for prefix in prefixes:
        assert then(f"{prefix}current_leader") != me
        assert after(f"{prefix}current_leader") == after(f"{prefix}current_vote") == me
        assert after(f"{prefix}current_epoch") > then(f"{prefix}current_epoch")


@pytest.mark.moves(
    "kafka_server_raft_metrics_high_watermark",
    "kafka_server_raft_metrics_log_end_offset",
    "kafka_server_raftmetrics_high_watermark",
    "kafka_server_raftmetrics_log_end_offset",
    "kafka_controller_kafkacontroller_lastappliedrecordoffset",
    "kafka_controller_kafkacontroller_lastcommittedrecordoffset",
    "minikafka_controller_unsnapshotted_bytes",
    "minikafka_controller_voter_fetch_age_ms",
    "minikafka_controller_voter_lag",
)
@staged(controllers=3, controller=METRICS)
async def test_a_controller_that_is_cut_off_misses_decisions_until_it_has_caught_up(
    stage: Stage,
) -> None:
    leader = stage.active_name()
    assert leader is not None
    away = next(each for each in CONTROLLERS if each != leader)
    voter = stage.daemon(away).properties["node.id"]
    lag, age = f"{OWN}voter_lag", f"{OWN}voter_fetch_age_ms"
    ends = [
        f"kafka_server_{prefix}_{name}"
        for prefix in ("raft_metrics", "raftmetrics")
        for name in ("high_watermark", "log_end_offset")
    ]
    await becomes(stage, leader, lag, 0, voter=voter)
    before, behind = told(stage, leader), told(stage, away)
    stage.isolate(away)
    await stage.create_topic("t", [[1, 2, 3]] * 5)
    after, still = told(stage, leader), told(stage, away)
    missed = after(ends[1]) - before(ends[1])
    assert missed >= 6
    assert after(lag, voter=voter) == missed
    assert after(age, voter=voter) > before(age, voter=voter)
    assert all(after(name) >= before(name) + 6 for name in ends)
    assert all(still(name) == behind(name) for name in ends)
    for name in ("lastappliedrecordoffset", "lastcommittedrecordoffset"):
        assert after(CONTROLLER + name) >= before(CONTROLLER + name) + 6
    unsnapshotted = f"{OWN}unsnapshotted_bytes"
    assert after(unsnapshotted) > before(unsnapshotted) + 100
    stage.heal()
    await becomes(stage, leader, lag, 0, voter=voter)
    assert told(stage, away)(ends[1]) == after(ends[1])


@pytest.mark.moves(
    "minikafka_controller_broker_metadata_lag", "minikafka_controller_heartbeat_age_ms"
)
@staged(controller=METRICS)
async def test_a_broker_that_stands_still_is_silent_and_behind(stage: Stage) -> None:
    lag, age = f"{OWN}broker_metadata_lag", f"{OWN}heartbeat_age_ms"
    await becomes(stage, "controller-1", lag, 0, broker=3)
    stage.pause(3)
    await stage.create_topic("t", [[1, 2]] * 5)
    await stage.sleep(1.2)
    still = told(stage, "controller-1")
    assert still(lag, broker=3) >= 6
    assert 1_000 < still(age, broker=3) < 2_000
    assert (still(lag, broker=1), still(age, broker=1) < 500) == (0, True)
    stage.resume(3)
    await becomes(stage, "controller-1", lag, 0, broker=3)
    assert read(stage, "controller-1", age, broker=3) < 500


@pytest.mark.moves(
    "kafka_controller_kafkacontroller_globalpartitioncount",
    "kafka_controller_kafkacontroller_globaltopiccount",
    "kafka_server_replicamanager_reassigningpartitions",
    "kafka_topic_partition_replicas",
    "kafka_topic_partitions",
)
@staged(broker=METRICS, controller=METRICS)
async def test_topics_are_made_grow_and_move(stage: Stage) -> None:
    names = [f"{CONTROLLER}globaltopiccount", f"{CONTROLLER}globalpartitioncount"]
    assert [read(stage, "controller-1", name) for name in names] == [0, 0]
    await stage.create_topic("t", [[1, 2]])
    assert [read(stage, "controller-1", name) for name in names] == [1, 1]
    assert read(stage, 1, "kafka_topic_partitions", topic="t") == 1
    await stage.admin(
        lambda admin: admin.create_partitions({"t": 3}, assignments={"t": [[1, 2], [1, 2]]})
    )
    await becomes(stage, 1, "kafka_topic_partitions", 3, topic="t")
    assert [read(stage, "controller-1", name) for name in names] == [1, 3]
    assert read(stage, 1, "kafka_topic_partition_replicas", **T0) == 2
    assert read(stage, 1, f"{REPLICAS}reassigningpartitions") == 0
    stage.pause(3)
    moved = {TopicPartition("t", 0): [1, 2, 3]}
    await stage.admin(lambda admin: admin.alter_partition_reassignments(moved))
    await becomes(stage, 1, f"{REPLICAS}reassigningpartitions", 1)
    stage.resume(3)
    await becomes(stage, 1, f"{REPLICAS}reassigningpartitions", 0)
    assert read(stage, 1, "kafka_topic_partition_replicas", **T0) == 3


@pytest.mark.moves(
    "kafka_cluster_partition_laststableoffsetlag",
    "kafka_server_replicamanager_produceridcount",
    "minikafka_oldest_open_transaction_seconds",
    "minikafka_transaction_markers_missing",
    "minikafka_transactional_ids",
)
@staged(broker=METRICS)
async def test_a_transaction_hides_what_it_wrote_until_its_markers_are_there(
    stage: Stage,
) -> None:
    configs = {**MIN_2, "cleanup.policy": "compact"}
    await stage.create_topic("__transaction_state", [[2, 3, 1]], configs=configs)
    await stage.create_topic("t", [[1, 2, 3]], configs=MIN_2)
    hidden, ids = "kafka_cluster_partition_laststableoffsetlag", "minikafka_transactional_ids"
    oldest, missing = (
        "minikafka_oldest_open_transaction_seconds",
        "minikafka_transaction_markers_missing",
    )
    assert read(stage, 1, hidden, **T0) == 0
    assert read(stage, 1, f"{REPLICAS}produceridcount") == 0
    producer = await stage.producer(transactional_id="tx")
    assert read(stage, 2, ids, state="Empty") == 1
    await producer.client.ask(producer.producer.begin_transaction)
    await producer.send("t", b"0")
    await producer.send("t", b"1")
    await stage.sleep(3)
    assert read(stage, 1, hidden, **T0) == 2
    assert read(stage, 1, f"{REPLICAS}produceridcount") == 1
    coordinator = told(stage, 2)
    assert coordinator(ids, state="Ongoing") == 1
    assert 3 <= coordinator(oldest) < 4
    assert coordinator(missing) == 0
    # The decision is on two disks; its marker has to reach the leader of the partition.
    stage.block(2, 1)
    ending = asyncio.ensure_future(producer.client.ask(producer.producer.commit_transaction))
    await becomes(stage, 2, missing, 1)
    assert read(stage, 2, oldest) == 0
    stage.heal()
    await ending
    await becomes(stage, 2, missing, 0)
    await becomes(stage, 1, hidden, 0, **T0)


@pytest.mark.moves("minikafka_event_loop_delay_ms")
@staged(broker=METRICS)
async def test_a_process_that_stands_still_is_late(stage: Stage) -> None:
    name = "minikafka_event_loop_delay_ms"
    await stage.sleep(1)
    assert read(stage, 1, name, quantile="0.99") < 2
    stage.pause(1)
    await stage.sleep(0.5)
    stage.resume(1)
    await stage.sleep(0.2)
    assert 300 < read(stage, 1, name, quantile="0.99") < 600


CAPS = {"queued.max.request.bytes": "1048576", "socket.request.max.bytes": "1048576"}


@pytest.mark.moves(
    "kafka_server_socket_server_metrics_connection_count",
    "minikafka_connections_admitted_total",
    "minikafka_memory_bytes",
    "minikafka_memory_waiting_connections",
)
@staged(broker={**METRICS, **CAPS})
async def test_requests_that_stay_unfinished_hold_memory_until_others_have_to_wait(
    stage: Stage,
) -> None:
    client = await stage.client()
    held, waiting = "minikafka_memory_bytes", "minikafka_memory_waiting_connections"
    count = "kafka_server_socket_server_metrics_connection_count"
    admitted = "minikafka_connections_admitted_total"
    admitted_before = read(stage, 1, admitted)

    async def begin_a_request() -> None:
        _, writer = await asyncio.open_connection("broker-1", 9092)
        writer.write((250_000).to_bytes(4, "big") + b"\x00\x03" + bytes(240_000))
        try:
            await asyncio.sleep(60)
        finally:
            writer.transport.abort()

    began = [asyncio.ensure_future(client.ask(begin_a_request))]
    await becomes(stage, 1, count, 1, listener="PLAINTEXT")
    began += [asyncio.ensure_future(client.ask(begin_a_request)) for _ in range(5)]
    await stage.until(lambda: read(stage, 1, waiting) > 0, "one waits")
    during = told(stage, 1)
    assert during(held, holds="requests") > 700_000
    assert during(count, listener="PLAINTEXT") == 6
    assert during(admitted) == admitted_before + 6
    for each in began:
        each.cancel()
    await becomes(stage, 1, held, 0, holds="requests")
    assert read(stage, 1, waiting) == 0


@pytest.mark.moves(
    "kafka_broker_info",
    "kafka_server_raft_metrics_number_of_voters",
    "kafka_server_raftmetrics_number_of_voters",
    "minikafka_memory_limit_bytes",
)
def test_daemons_tell_what_they_are_given() -> None:
    def scrapes(controllers: int, **settings: str) -> list[Scrape]:
        stage = Stage(1, controllers, broker={**METRICS, **settings}, controller=METRICS)

        async def story(stage: Stage) -> list[Scrape]:
            return [told(stage, who) for who in (1, "controller-1")]

        return stage.play(story)

    limit, voters = "minikafka_memory_limit_bytes", "kafka_server_raft_metrics_number_of_voters"
    address = "PLAINTEXT://kafka.example:9999"
    broker, controller = scrapes(1)
    assert broker("kafka_broker_info", id=1, address="broker-1:9092") == 1
    assert (broker(limit, holds="requests"), controller(voters)) == (256 << 20, 1)
    settings = {"queued.max.request.bytes": str(300 << 20), "advertised.listeners": address}
    broker, controller = scrapes(3, **settings)
    assert broker("kafka_broker_info", id=1, address="kafka.example:9999") == 1
    assert (broker(limit, holds="requests"), controller(voters)) == (300 << 20, 3)
