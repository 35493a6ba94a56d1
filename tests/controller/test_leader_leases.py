"""Who waits for whose lease; and that nobody is elected while an old leader may act as one."""

from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.replica.lease import LeaderLease
from minikafka.controller.metadata.leader_leases import LeaderLeases
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.messages import Endpoint
from minikafka.protocol.control.records import (
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from minikafka.protocol.types import NO_LEADER, TopicIdPartition

TOPIC = b"a topic of a test"[:16]
THERE = TopicIdPartition(TOPIC, 0)
LEASE_MS = 1000


def image_led_by(leader: int) -> MetadataImage:
    image = MetadataImage()
    for broker in (1, 2):
        directory = b"directory %d" % broker
        record = RegisterBrokerRecord(
            broker, b"i" * 16, (directory,), (Endpoint("P", "h", 1),), None, {}, fenced=False
        )
        image.apply(record, broker)
    image.apply(TopicRecord("t", TOPIC), 3)
    image.apply(PartitionRecord(TOPIC, 0, (1, 2), (1, 2), max(leader, 1)), 4)
    if leader == NO_LEADER:
        image.apply(PartitionChangeRecord(TOPIC, 0, leader=NO_LEADER), 5)
    return image


def active_with(leader: int = 1, now_ms: int = 0) -> LeaderLeases:
    """A controller that became active long enough ago to know every grant."""
    leases = LeaderLeases(LEASE_MS)
    leases.restart(image_led_by(leader), now_ms)
    leases.on_deadline(now_ms + LEASE_MS)
    return leases


def taken(leader: int = NO_LEADER) -> list[PartitionChangeRecord]:
    return [PartitionChangeRecord(TOPIC, 0, leader=leader)]


def test_a_new_controller_counts_on_a_grant_of_the_moment_before() -> None:
    leases = LeaderLeases(LEASE_MS)
    leases.restart(image_led_by(1), 500)
    assert leases.must_wait(THERE, 1)
    assert leases.next_deadline_ms() == 500 + LEASE_MS
    leases.on_deadline(1499)
    assert leases.must_wait(THERE, 1)
    leases.on_deadline(1500)
    assert not leases.must_wait(THERE, 1)


def test_what_was_leaderless_before_waits_for_whoever_led_it() -> None:
    leases = LeaderLeases(LEASE_MS)
    leases.restart(image_led_by(NO_LEADER), 0)
    assert leases.must_wait(THERE, NO_LEADER)
    assert leases.on_given_up(1) == ()
    assert leases.on_deadline(LEASE_MS) == (THERE,)
    assert not leases.must_wait(THERE, NO_LEADER)


def test_a_grant_reaches_no_further_than_a_lease_beyond_the_majority() -> None:
    leases = active_with()
    assert leases.grant(1, 9, now_ms=5000, majority_ms=5000) == 950
    assert leases.grant(1, 9, now_ms=5400, majority_ms=5000) == 570
    assert leases.grant(1, 9, now_ms=6000, majority_ms=5000) == -1
    assert leases.grant(1, 9, now_ms=6000, majority_ms=-1) == -1
    assert leases.next_deadline_ms() == 6000


def test_a_dead_leader_is_waited_for_until_its_lease_ends() -> None:
    leases = active_with()
    leases.grant(1, 9, 5000, 5000)
    leases.on_replayed(taken(), 10)
    assert leases.on_deadline(5999) == ()
    assert leases.must_wait(THERE, NO_LEADER)
    assert leases.on_deadline(6000) == (THERE,)


def test_a_living_leader_is_waited_for_until_it_has_heard_and_is_granted_nothing_meanwhile() -> (
    None
):
    leases = active_with()
    leases.grant(1, 9, 5000, 5000)
    leases.on_replayed(taken(), 10)
    assert leases.grant(1, 9, 5100, 5100) == -1
    assert leases.on_applied(1, 9) == ()
    assert leases.on_applied(2, 10) == ()
    assert leases.on_applied(1, 10) == (THERE,)
    leases.on_replayed(taken(2), 11)
    assert leases.grant(1, 9, 5200, 5200) == -1
    assert leases.grant(1, 10, 5200, 5200) > 0
    assert not leases.must_wait(THERE, 2)


def test_who_was_fenced_without_a_lease_gets_one_only_after_it_has_heard_who_leads() -> None:
    """Found by the simulator: fenced for silence, it comes back and is unfenced by a heartbeat."""
    leases = active_with()
    leases.on_replayed(taken(2), 10)
    assert leases.grant(1, 9, 5000, 5000) == -1
    assert leases.grant(1, 10, 5000, 5000) > 0


def test_a_new_controller_grants_to_those_that_know_all_that_it_knows() -> None:
    leases = LeaderLeases(LEASE_MS)
    leases.restart(image_led_by(1), 0)
    assert leases.grant(1, 3, 5000, 5000) == -1
    assert leases.grant(1, 4, 5000, 5000) > 0


def test_whoever_gave_up_its_lease_is_not_waited_for() -> None:
    leases = active_with()
    leases.grant(1, 9, 5000, 5000)
    leases.on_given_up(1)
    assert not leases.must_wait(THERE, 1)
    leases.on_replayed(taken(), 10)
    assert not leases.must_wait(THERE, NO_LEADER)


def test_nobody_waits_for_a_deleted_topic() -> None:
    leases = active_with()
    leases.grant(1, 9, 5000, 5000)
    leases.on_replayed(taken(), 10)
    leases.on_replayed([RemoveTopicRecord(TOPIC)], 11)
    assert leases.on_deadline(6000) == ()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("heartbeat"), st.integers(0, 400), st.integers(0, 400)),
        st.tuples(st.just("majority"), st.just(0), st.just(0)),
        st.tuples(st.just("take"), st.just(0), st.just(0)),
        st.tuples(st.just("hear"), st.just(0), st.just(0)),
        st.tuples(st.just("give up"), st.integers(0, 300), st.just(0)),
        st.tuples(st.just("new controller"), st.just(0), st.just(0)),
        st.tuples(st.just("time"), st.integers(1, 700), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=400)
@given(STEPS)
def test_while_another_may_be_elected_the_old_leader_holds_no_lease(
    steps: list[tuple[str, int, int]],
) -> None:
    """Both machines and the wires between them, whatever they delay."""
    now_ms, majority_ms, offset, heard = 10_000, 10_000, 10, 10
    leases, lease, is_led = active_with(now_ms=now_ms - LEASE_MS), LeaderLease(), True
    lease.on_heartbeat_answered(now_ms, -1)
    for what, first, second in steps:
        match what:
            case "heartbeat":
                sent_ms, applied, now_ms = now_ms, heard, now_ms + first
                leases.on_deadline(now_ms)
                granted_ms = leases.grant(1, applied, now_ms, majority_ms)
                now_ms += second
                lease.on_heartbeat_answered(sent_ms, granted_ms)
            case "majority":
                majority_ms = now_ms
            case "take" if is_led:
                is_led, offset = False, offset + 1
                leases.on_replayed(taken(), offset)
            case "hear":
                heard = offset
                leases.on_applied(1, heard)
            case "give up":
                lease.give_up(now_ms)
                now_ms += first
                leases.on_given_up(1)
            case "new controller":
                # Elected by a majority that from here on answers nobody else.
                leases, image = LeaderLeases(LEASE_MS), image_led_by(1 if is_led else NO_LEADER)
                image.offset = offset
                leases.restart(image, now_ms)
                majority_ms = now_ms
            case "time":
                now_ms += first
        leases.on_deadline(now_ms)
        acts = lease.is_held(now_ms) and (is_led or heard < offset)
        leader = 1 if is_led else NO_LEADER
        assert leases.must_wait(THERE, leader) or not acts
