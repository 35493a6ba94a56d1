"""What admins answer becomes what screens show."""

from dataclasses import replace

import pytest

from minikafka.client.admin.cluster_types import LATE_MS, MetadataQuorum, QuorumReplica
from minikafka.client.admin.config_types import ConfigEntry
from minikafka.client.admin.group_types import GroupDescription, GroupListing, GroupMember
from minikafka.client.admin.lag_types import PartitionLag
from minikafka.client.admin.log_types import LogDirectory, ReplicaInfo
from minikafka.client.admin.topic_types import Reassignment, TopicDescription
from minikafka.client.admin.transaction_types import (
    ActiveProducer,
    TransactionDescription,
    TransactionListing,
)
from minikafka.client.cli.offset_resets import Bounds, Scenario
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.describe_configs import ConfigSource
from minikafka.protocol.types import TopicPartition
from minikafka.runtime.errors import ConfigError
from minikafka.web.console.asking import questions_about
from minikafka.web.console.views import words
from minikafka.web.console.views.brokers import broker_of, brokers_of
from minikafka.web.console.views.changes import BadField
from minikafka.web.console.views.configs import config_rows
from minikafka.web.console.views.elections import MOST_ELECTIONS, Elections
from minikafka.web.console.views.groups import (
    MOST_MEMBERS,
    MOST_OFFSETS,
    Lags,
    group_of,
    groups_of,
    groups_page,
    is_other,
    reset_command,
    reset_rows,
)
from minikafka.web.console.views.messages import LIMITS, question_of
from minikafka.web.console.views.moves import MOST_MOVING, moving_rows, plan_rows
from minikafka.web.console.views.overview import Level, overview_of
from minikafka.web.console.views.pages import ROWS, page_of
from minikafka.web.console.views.partition import (
    LEAST_SPAN,
    WIDTH,
    Offsets,
    Replicas,
    partition_of,
)
from minikafka.web.console.views.quorum import quorum_of
from minikafka.web.console.views.topics import topic_of, topics_of
from minikafka.web.console.views.transactions import (
    pins_of,
    transactions_of,
    transactions_page,
)

from .values import NOW_MS, follower, partition, replica, sight, topic

WHERE = TopicPartition("t", 0)


# -- words


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, words.UNKNOWN),
        (250, "250 ms"),
        (4_200, "4.2 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
        (273_600_000, "3 d 4 h"),
        (60_000, "1 min"),
    ],
)
def test_a_time_span_is_written_in_its_two_largest_units(ms: int | None, text: str) -> None:
    assert words.duration(ms) == text


def test_sizes_and_counts() -> None:
    assert [words.size(n) for n in (0, 1023, 1536, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 TiB",
    ]
    assert words.number(1234567) == "1\u202f234\u202f567"
    assert words.listed([1, 2, 3], 2) == "1, 2 and 1 more"


def test_a_time_that_no_calendar_has_is_a_number() -> None:
    assert words.moment(0) == "1970-01-01 00:00:00.000"
    assert words.moment(2**62) == str(2**62)
    assert words.moment(-1) == words.UNKNOWN


def test_what_cannot_be_seen_is_replaced() -> None:
    assert words.visible("a\x00b\x1b\u202ec\ud800\n") == "a\u2400b\u241b\ufffdc\ufffd\n"


# -- overview


def test_a_cluster_in_order_says_so() -> None:
    view = overview_of(sight(topic("a")))
    assert (view.level, view.findings) == (Level.GOOD, ())
    assert view.sentence == "Everything is in order."


def test_what_is_wrong_is_named_with_the_way_out_the_worst_first() -> None:
    broken = topic("a", partition(0, (1, 2)), partition(1, (2,)), partition(2, ()))
    view = overview_of(sight(broken, fenced=3, min_isr={"a": 2}))
    assert view.level is Level.BAD
    assert [one.title for one in view.findings] == [
        "1 broker out of service",
        "1 partition without a leader",
        "2 partitions under min.insync.replicas",
        "3 partitions under-replicated",
    ]
    assert all(one.command for one in view.findings)
    assert {tile.label: tile.value for tile in view.tiles}["Brokers"] == 2


def test_a_note_alone_leaves_a_cluster_in_order() -> None:
    view = overview_of(sight(topic("a", partition(0, leader=2))))
    assert view.level is Level.GOOD
    assert [one.level for one in view.findings] == [Level.NOTE]


def test_a_controller_that_is_behind_is_a_warning() -> None:
    voters = (
        QuorumReplica(100, "d", 50, None, NOW_MS),
        QuorumReplica(101, "e", 40, None, NOW_MS - LATE_MS - 1),
    )
    quorum = MetadataQuorum(100, 7, 50, voters)
    assert "Controller 101 is behind" in overview_of(sight(quorum=quorum)).sentence
    rows = quorum_of(quorum).rows
    assert [(row.role, row.behind, row.is_late) for row in rows] == [
        ("leader", 0, False),
        ("voter", 10, True),
    ]


def test_no_active_controller_is_bad() -> None:
    quorum = MetadataQuorum(-1, 7, 50, ())
    assert overview_of(sight(quorum=quorum)).level is Level.BAD


# -- elections


def led(name: str, *leaders: int, epoch: int = 4, topic_id: str = "id") -> TopicDescription:
    """A topic whose partitions have these leaders."""
    partitions = [
        replace(partition(n, leader=one), leader_epoch=epoch) for n, one in enumerate(leaders)
    ]
    return replace(topic(name, *partitions), topic_id=topic_id)


def test_elections_are_what_differs_between_two_looks() -> None:
    elections = Elections()
    looks = [
        sight(led("a", 1, 1, 2), led("b", *[1] * 9)),
        sight(led("a", 2, 2, 2, epoch=5), led("b", *[2] * 9, epoch=5)),
        sight(led("a", 2, 2, -1, epoch=6, topic_id="another"), led("new", 3)),
        sight(quorum=MetadataQuorum(101, 8, 50, ())),
    ]
    for second, look in enumerate(looks):
        for _ in range(2):
            elections.on_sight(replace(look, at_ms=NOW_MS + second * 1000))
    elections.on_sight(looks[0])
    view = elections.view()
    assert view.since_ms == NOW_MS
    assert [(row.before, row.after, row.count, row.epoch) for row in view.rows] == [
        (100, 101, 0, 8),
        (2, 2, 1, 5),
        (1, 2, 11, 5),
    ]
    moved = view.rows[-1]
    assert (moved.looked_ms, moved.seen_ms) == (NOW_MS, NOW_MS + 1000)
    assert [f"{topic}-{index}" for topic, index in moved.partitions] == [
        "a-0",
        "a-1",
        "b-0",
        "b-1",
        "b-2",
    ]


def test_only_the_newest_elections_are_remembered() -> None:
    elections = Elections()
    for epoch in range(MOST_ELECTIONS + 10):
        look = sight(led("a", 1 + epoch % 2, epoch=epoch))
        elections.on_sight(replace(look, at_ms=NOW_MS + epoch))
    rows = elections.view().rows
    assert (len(rows), rows[0].epoch) == (MOST_ELECTIONS, MOST_ELECTIONS + 9)


# -- lists


def test_a_page_that_is_not_there_is_the_nearest_one() -> None:
    names = [f"topic-{n}" for n in range(120)]
    page = page_of(names, "", 99)
    assert (page.number, page.count, page.first, page.last) == (3, 3, 2 * ROWS + 1, 120)
    assert page_of(names, " TOPIC-11 ", 0).rows == tuple(
        name for name in names if "topic-11" in name
    )
    assert page_of([], "x", 1).first == 0


def test_topics_in_trouble_are_found() -> None:
    seen = sight(
        topic("fine"),
        topic("short", partition(0, (1,))),
        topic("gone", partition(0, ())),
        topic("__inside", internal=True),
        min_isr={"short": 2},
    )

    def found(only: str) -> list[str]:
        return [row.name for row in topics_of(seen, "", only, 1).page.rows]

    assert found("") == found("no such") == ["fine", "gone", "short"]
    assert found("offline") == ["gone"]
    assert found("under-replicated") == ["gone", "short"]
    assert found("under-min-isr") == ["short"]
    assert found("internal") == ["__inside"]


def test_a_topic_shows_who_has_which_part() -> None:
    seen = topic("t", partition(0, (2, 3)), partition(1))
    view = topic_of(seen, [WHERE], {WHERE: 5}, {WHERE: 25})
    assert view.rows[0].replicas == ((1, "behind"), (2, "leader"), (3, "in-sync"))
    assert (view.rows[0].count, view.rows[1].count, view.count) == (20, None, None)
    assert view.moving == (0,)


def test_brokers_are_counted_and_lost_ones_are_shown() -> None:
    seen = sight(topic("t", partition(0), partition(1, (2, 3))))
    directory = LogDirectory(None, {WHERE: ReplicaInfo(100, 0, False)}, 1000, 250)
    rows = brokers_of(seen, {1: {"/d": directory}})
    assert [(row.node_id, row.leads, row.holds, row.in_sync) for row in rows] == [
        (1, 1, 2, 1),
        (2, 1, 2, 2),
        (3, 0, 2, 2),
    ]
    assert rows[0].size == 100
    assert rows[0].directories[0].used_share == 0.75
    assert rows[1].size is None
    view = broker_of(seen, 1, {1: {"/d": directory}})
    assert view is not None
    assert view.largest == ((WHERE, 100),)
    assert broker_of(seen, 9, {}) is None


# -- a partition


def test_lanes_end_where_the_logs_end_and_the_tail_spans_them_all() -> None:
    leader = replica(1, 100, high_watermark=80, followers=(follower(2, 80), follower(3, 60, 900)))
    told: Replicas = {
        1: leader,
        2: replica(2, 80),
        3: ApiError(ErrorCode.NETWORK_EXCEPTION, "gone"),
    }
    view = partition_of(WHERE, partition(0, (1, 2)), told, None)
    assert view.tail_from == 50
    assert [sum(one.width for one in lane.tail) for lane in view.lanes] == [
        WIDTH,
        WIDTH * 3 // 5,
        WIDTH // 5,
    ]
    assert view.tail_watermark_x == WIDTH * 3 // 5
    assert [lane.behind for lane in view.lanes] == [0, 20, 40]
    assert [lane.behind_ms for lane in view.lanes] == [0, 0, 900]
    assert view.lanes[2].trouble
    assert view.behind == {"broker 1": 0, "broker 2": 20, "broker 3": 40}


def test_a_lane_changes_its_shade_where_an_epoch_begins() -> None:
    view = partition_of(WHERE, partition(0), {n: replica(n, 100) for n in (1, 2, 3)}, None)
    (first, second) = view.lanes[0].whole
    assert (first.epoch, first.width, first.shade) == (0, 600, "a")
    assert (second.epoch, second.start_offset, second.shade) == (1, 60, "b")
    assert view.epochs == ((1, 60), (0, 0))


def test_replicas_that_are_together_fill_a_tail_of_the_least_span() -> None:
    view = partition_of(WHERE, partition(0), {n: replica(n, 100) for n in (1, 2, 3)}, None)
    assert view.tail_from == 100 - LEAST_SPAN
    assert (view.level, view.tail_watermark_x) == ("good", WIDTH)


def test_an_empty_log_has_lanes_without_stretches() -> None:
    empty = {n: replica(n, 0, epochs=()) for n in (1, 2, 3)}
    view = partition_of(WHERE, partition(0), empty, None)
    assert [lane.tail for lane in view.lanes] == [(), (), ()]


def test_a_silent_replica_stays_where_it_was_seen() -> None:
    told: Replicas = {
        1: replica(1, 100, isr=(1, 2), followers=(follower(2, 100), follower(3, None, 5_000))),
        2: replica(2, 100),
        3: ApiError(ErrorCode.NETWORK_EXCEPTION, "gone"),
    }
    view = partition_of(WHERE, partition(0, (1, 2)), told, None, {3: 70})
    assert view.lanes[2].behind == 30
    assert view.level == "warn"


def test_a_cluster_that_does_not_tell_of_replicas_shows_its_leaders_offsets() -> None:
    view = partition_of(WHERE, partition(0), None, Offsets(3, 10, 9))
    assert not view.tells_replicas
    assert (view.log_start, view.high_watermark, view.last_stable) == (3, 10, 9)
    nothing = partition_of(WHERE, partition(0, ()), None, None)
    assert (nothing.level, nothing.log_end) == ("bad", None)


# -- groups


LAGS: Lags = {
    WHERE: PartitionLag(10, 20, 20, 9, 900, 4.5),
    TopicPartition("t", 1): PartitionLag(5, 9),
    TopicPartition("t", 2): ApiError(ErrorCode.LEADER_NOT_AVAILABLE),
}


def test_a_group_adds_up_its_lag_and_shows_the_largest_first() -> None:
    member = GroupMember("m", None, "client", "/1.2.3.4", (WHERE, TopicPartition("t", 3)))
    group = GroupDescription("g", "Stable", "consumer", "range", (member,), 1)
    view = group_of(group, LAGS)
    assert (view.lag.records, view.lag.ms, view.lag.size) == (13, 4_500, 900)
    assert [row.where.partition for row in view.rows] == [0, 1, 2, 3]
    assert view.rows[0].owner == "client at /1.2.3.4"
    assert "LEADER_NOT_AVAILABLE" in view.rows[2].trouble


def test_only_the_groups_of_a_page_are_asked_for_their_lag() -> None:
    listed = [GroupListing(f"g{n:03}", "consumer", "Stable", "classic") for n in range(60)]
    page = groups_page(listed, "", 2)
    rows = groups_of(page, {"g050": LAGS}).rows
    assert [row.group_id for row in rows][:2] == ["g050", "g051"]
    assert rows[0].lag is not None
    assert (rows[0].lag.records, rows[1].lag) == (13, None)


def test_a_group_of_apache_kafkas_newer_protocols_says_what_cannot_be_shown() -> None:
    newer = GroupListing("new", "consumer", "Stable", "consumer")
    view = group_of(newer, {WHERE: PartitionLag(5, 9)})
    assert view.unknown == "This is a group of the consumer protocol: its members cannot be shown."
    assert (view.lag.records, view.counts_offsets, view.group.state) == (4, True, "Stable")
    shared = GroupListing("shared", "share", "Stable", "share")
    assert "share group" in group_of(shared, {}).unknown
    assert group_of(shared, {}).lag.records is None
    both = groups_of(groups_page([newer, shared], "", 1), {"new": {}, "shared": {}})
    assert [row.lag is None for row in both.rows] == [False, True]
    assert not both.counts_offsets
    assert [is_other(one) for one in (newer, newer._replace(type=""))] == [True, False]


def test_of_a_group_of_many_the_partitions_with_the_most_left_are_shown() -> None:
    lags: Lags = {TopicPartition("t", n): PartitionLag(0, n) for n in range(MOST_OFFSETS + 9)}
    members = (GroupMember("m", None, "c", "/h", ()),) * (MOST_MEMBERS + 1)
    view = group_of(GroupDescription("g", "Stable", "consumer", "range", members, 1), lags)
    assert view.rows[0].where.partition == MOST_OFFSETS + 8
    assert (len(view.rows), view.partitions) == (MOST_OFFSETS, MOST_OFFSETS + 9)
    assert (len(view.members), view.member_count) == (MOST_MEMBERS, MOST_MEMBERS + 1)


def test_a_reset_shows_what_is_read_again_and_what_is_skipped() -> None:
    bounds = {WHERE: Bounds(0, 100, 40), TopicPartition("t", 1): Bounds(0, 10, None)}
    rows = reset_rows(Scenario.OFFSET, 60, bounds)
    assert [(row.target, row.difference) for row in rows] == [(60, 20), (10, None)]
    assert [bool(row.warning) for row in rows] == [False, True]
    command = reset_command("g", "offset", "60", "t", execute=True)
    assert command[-5:] == ("--topic", "t", "--to-offset", "60", "--execute")


# -- messages, transactions, configs, moves


def test_a_question_is_read_from_an_address_and_written_back() -> None:
    asked = {"partition": "2", "from": "offset", "at": "7", "limit": "9999", "committed": "on"}
    question = question_of("t", asked)
    assert (question.partition, question.offset, question.limit) == (2, 7, max(LIMITS))
    assert question_of("t", {k: str(v) for k, v in question.address().items()}) == question
    assert question_of("t", {"from": "time", "at": "1970-01-01T00:00:01"}).time_ms == 1000
    assert question_of("t", {"from": "time", "at": "5000"}).time_ms == 5000
    for wrong in ({"from": "here"}, {"as": "yaml"}, {"partition": "x"}, {"limit": "many"}):
        with pytest.raises(BadField):
            question_of("t", wrong)
    with pytest.raises(BadField):
        assert question_of("t", {"at": "-1"}).offset
    with pytest.raises(BadField):
        assert question_of("t", {"at": "soon"}).time_ms


def test_the_earliest_open_transaction_pins_its_partition() -> None:
    listed = [TransactionListing("b", 1, 7, "Ongoing"), TransactionListing("a", 1, 8, "Empty")]
    producers = {
        WHERE: [
            ActiveProducer(7, 0, 0, NOW_MS, None, 40),
            ActiveProducer(9, 0, 0, NOW_MS, None, 30),
            ActiveProducer(8, 0, 0, NOW_MS, None, None),
        ],
        TopicPartition("t", 1): [ActiveProducer(8, 0, 0, NOW_MS, None, None)],
    }
    (pin,) = pins_of(producers, {WHERE: 100}, listed)
    assert (pin.where, pin.first_offset, pin.behind, pin.producer_id) == (WHERE, 30, 70, 9)
    assert pin.transactional_id == ""
    page = transactions_page(listed, "", 1)
    found = {"b": TransactionDescription("b", 1, "Ongoing", 7, 0, 1000, NOW_MS - 2000, (WHERE,))}
    rows = transactions_of(page, found, (pin,), NOW_MS).rows
    assert [(row.transactional_id, row.open_ms, row.level) for row in rows] == [
        ("b", 2000, "warn"),
        ("a", None, ""),
    ]
    found["b"] = found["b"]._replace(state="CompleteCommit")
    ended = transactions_of(page, found, (pin,), NOW_MS).rows[0]
    assert (ended.open_ms, ended.level) == (None, "")


def test_settings_that_differ_come_first_with_what_they_would_be() -> None:
    default = ConfigSource.DEFAULT_CONFIG
    entries = {
        "a": ConfigEntry("a", "1", default, False, False),
        "b": ConfigEntry(
            "b", "2", ConfigSource.TOPIC_CONFIG, False, False, synonyms=(("b", "9", default),)
        ),
        "c": ConfigEntry("c", "x", ConfigSource.STATIC_BROKER_CONFIG, True, True),
    }
    rows = config_rows(entries, "", only_changed=False)
    assert [(row.name, row.value, row.default) for row in rows] == [
        ("b", "2", "9"),
        ("c", "secret", words.UNKNOWN),
        ("a", "1", words.UNKNOWN),
    ]
    assert [row.current for row in rows] == ["2", "", "1"]
    assert [row.name for row in config_rows(entries, "", only_changed=True)] == ["b", "c"]
    assert [row.name for row in config_rows(entries, "A", only_changed=False)] == ["a"]


def test_markup_in_the_documentation_of_a_setting_is_removed() -> None:
    text = "At <code>a &lt; b</code> or less than <5 <a href='x'>more</a>."
    default = ConfigSource.DEFAULT_CONFIG
    entry = ConfigEntry("a", "1", default, False, False, documentation=text)
    (row,) = config_rows({"a": entry}, "", only_changed=False)
    assert row.documentation == "At a < b or less than <5 more."


def test_a_plan_says_what_it_copies_and_moves_know_how_to_be_cancelled() -> None:
    seen = topic("t", partition(0))
    move = Reassignment((1, 2, 3, 4), (3, 4), (1,))
    (row,) = moving_rows({WHERE: move}, {"t": seen})
    assert (row.arrived, '"replicas":[1,2,3,4]' in row.cancel) == (1, True)
    many = {TopicPartition("t", index): move for index in range(MOST_MOVING + 1)}
    assert len(moving_rows(many, {})) == MOST_MOVING
    plan = plan_rows(seen, {1: "a", 2: None, 3: None}, {WHERE: 100})
    assert [(one.is_moved, one.size) for one in plan] == [(False, 0)]
    with pytest.raises(ConfigError):
        plan_rows(seen, {1: None}, {})


def test_leaders_are_asked_about_all_groups_together() -> None:
    other = TopicPartition("t", 1)
    readers = [{WHERE: 5, other: 1}, {WHERE: 7}, {WHERE: 5}, {}]
    assert questions_about(readers) == [{WHERE: 5, other: 1}, {WHERE: 7}]
    assert questions_about([]) == []
