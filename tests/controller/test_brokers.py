"""Registration, fencing, controlled shutdown."""

import pytest

from minikafka.controller.metadata.brokers import fence_expired, register
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.messages import Endpoint, RegisterBroker, VersionRange
from minikafka.protocol.control.records import METADATA_VERSION, RegisterBrokerRecord
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import NO_LEADER

from .machine import Machine, error, uuid


def test_the_broker_epoch_is_the_offset_of_the_registration() -> None:
    machine = Machine(brokers_up=2)
    answer = machine.register(3)
    assert answer.broker_epoch == len(machine.log) - 1 == machine.broker(3).broker_epoch
    assert isinstance(machine.log[-1], RegisterBrokerRecord)
    assert machine.broker(3).fenced


def test_the_epoch_counts_the_changes_written_before_it() -> None:
    machine = Machine(brokers_up=2)
    machine.create("t", 4, 2)
    before = len(machine.log)
    answer = machine.register(2, incarnation=2)
    assert len(machine.log) - before > 1
    assert answer.broker_epoch == len(machine.log) - 1 == machine.broker(2).broker_epoch


def test_d_05_a_second_process_of_the_same_id_waits_for_the_first_to_die() -> None:
    machine = Machine(brokers_up=1)
    first = machine.broker(1).broker_epoch
    answer = machine.register(1, incarnation=2, directories=[5])
    assert error(answer) == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert machine.broker(1).broker_epoch == first
    machine.fence(1)
    machine.come_up(1, incarnation=2, directories=[5])
    # The first, should it still run, is nobody from now on.
    assert error(machine.beat(1, epoch=first)) == ErrorCode.STALE_BROKER_EPOCH


def test_d_06_a_lost_answer_is_given_again() -> None:
    machine = Machine()
    first = machine.register(1)
    length = len(machine.log)
    assert machine.register(1) == first
    assert len(machine.log) == length


def test_the_same_start_may_move_its_listeners_and_keeps_its_epoch() -> None:
    machine = Machine(brokers_up=1)
    moved = (Endpoint("PLAINTEXT", "elsewhere", 9092),)
    answer = machine.register(1, endpoints=moved)
    assert answer.broker_epoch == machine.broker(1).broker_epoch
    assert machine.broker(1).endpoints == moved
    assert not machine.broker(1).fenced


def test_a_new_start_with_the_same_directory_is_accepted_at_once() -> None:
    """It holds the directory's lock: the old process is dead, whatever its lease says."""
    machine = Machine(brokers_up=2)
    machine.create("t", replicas=[(1, 2)])
    machine.register(1, incarnation=2)
    assert machine.broker(1).fenced
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2,))


def test_one_directory_in_common_is_enough() -> None:
    machine = Machine()
    machine.come_up(1, directories=[0, 1])
    assert error(machine.register(1, incarnation=2, directories=[1, 2])) == 0


def test_d_07_a_broker_is_not_unfenced_before_it_knows_of_itself() -> None:
    machine = Machine()
    machine.register(1)
    epoch = machine.broker(1).broker_epoch
    answer = machine.beat(1, metadata_offset=epoch - 1)
    assert answer.is_fenced
    assert not answer.is_caught_up
    answer = machine.beat(1, metadata_offset=epoch)
    assert not answer.is_fenced
    assert not machine.broker(1).fenced


def test_a_broker_may_ask_to_stay_fenced_or_to_be_fenced() -> None:
    machine = Machine()
    machine.register(1)
    answer = machine.beat(1, want_fence=True)
    assert (answer.is_fenced, answer.is_caught_up) == (True, True)
    assert not machine.beat(1).is_fenced
    assert machine.beat(1, want_fence=True).is_fenced
    assert machine.broker(1).fenced


@pytest.mark.parametrize(
    "bad",
    [
        {"endpoints": ()},
        {"endpoints": (Endpoint("A", "h", 1), Endpoint("A", "h", 2))},
        {"directories": []},
        {"broker_id": -1},
        {"broker_id": 1 << 31},
        {"endpoints": (Endpoint("A", "h", 70_000),)},
        {"endpoints": (Endpoint("A", "h", 0),)},
        {"endpoints": (Endpoint("A", "", 1),)},
        {"endpoints": (Endpoint("A", "h" * 256, 1),)},
        {"rack": "r" * 256},
    ],
)
def test_a_registration_that_makes_no_sense_is_refused(bad: dict[str, object]) -> None:
    machine = Machine()
    answer = machine.register(**{"broker_id": 1, **bad})  # type: ignore[arg-type]
    assert error(answer) == ErrorCode.INVALID_REGISTRATION
    assert machine.image.brokers == {}


def test_a_copied_disk_is_noticed() -> None:
    machine = Machine(brokers_up=1)
    stolen = machine.broker(1).directory_ids
    image_before = dict(machine.image.brokers)
    request = RegisterBroker(
        2, uuid(2), stolen, (Endpoint("A", "h", 1),), None, {METADATA_VERSION: VersionRange(1, 1)}
    )
    decision = register(machine.cluster, request, has_live_lease=False)
    assert error(decision.answer) == ErrorCode.INVALID_REGISTRATION
    assert decision.records == ()
    assert machine.image.brokers == image_before


@pytest.mark.parametrize("features", [{}, {METADATA_VERSION: VersionRange(2, 3)}])
def test_l_02_a_broker_that_cannot_read_the_metadata_is_refused(
    features: dict[str, VersionRange],
) -> None:
    answer = Machine().register(1, features=features)
    assert error(answer) == ErrorCode.UNSUPPORTED_VERSION


def test_d_03_a_shutdown_waits_until_every_active_broker_knows_who_leads_instead() -> None:
    machine = Machine(brokers_up=3)
    machine.create("t", replicas=[(1, 2, 3)])
    answer = machine.beat(1, want_shutdown=True, applied_by_others=0)
    assert not answer.should_shut_down
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2, 3))
    moved_at = machine.shutdown_offsets[1]
    assert moved_at == len(machine.log) - 1
    behind = machine.beat(1, want_shutdown=True, applied_by_others=moved_at - 1)
    assert not behind.should_shut_down
    answer = machine.beat(1, want_shutdown=True, applied_by_others=moved_at)
    assert answer.should_shut_down
    assert machine.broker(1).fenced


def test_d_04_the_last_in_sync_may_leave_and_leads_when_it_is_back() -> None:
    machine = Machine(brokers_up=2)
    machine.create("t", replicas=[(1,)])
    assert not machine.beat(1, want_shutdown=True, applied_by_others=0).should_shut_down
    assert (machine.state("t").leader, machine.state("t").isr) == (NO_LEADER, (1,))
    assert machine.beat(1, want_shutdown=True, applied_by_others=1 << 40).should_shut_down
    machine.come_up(1, incarnation=2)
    assert machine.state("t").leader == 1
    assert not machine.broker(1).in_controlled_shutdown


def test_a_broker_that_leads_nothing_leaves_at_once() -> None:
    machine = Machine(brokers_up=2)
    machine.create("t", replicas=[(1, 2)])
    answer = machine.beat(2, want_shutdown=True, applied_by_others=0)
    assert answer.should_shut_down
    assert machine.state("t").isr == (1,)


def test_a_fenced_broker_leaves_at_once() -> None:
    machine = Machine()
    machine.register(1)
    assert machine.beat(1, want_shutdown=True).should_shut_down


def test_an_expired_lease_of_an_earlier_start_fences_nobody() -> None:
    machine = Machine(brokers_up=1)
    old = machine.broker(1).broker_epoch
    machine.come_up(1, incarnation=2)
    assert fence_expired(machine.cluster, 1, old).records == ()
    assert fence_expired(machine.cluster, 9, old).records == ()


def test_a_dead_broker_can_be_forgotten() -> None:
    machine = Machine(brokers_up=3, elr=True, min_isr=2)
    machine.create("t", replicas=[(3, 1, 2)])
    machine.fence(2)
    machine.fence(3)
    assert machine.state("t").elr == (3,)
    assert machine.unregister(3) == ErrorCode.NONE
    assert sorted(machine.image.brokers) == [1, 2]
    state = machine.state("t")
    assert (state.replicas, state.isr, state.elr) == ((3, 1, 2), (1,), ())
    assert machine.unregister(3) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_living_broker_that_is_forgotten_leads_nothing_and_registers_again() -> None:
    machine = Machine(brokers_up=2)
    machine.create("t", replicas=[(1, 2)])
    before = machine.broker(1).broker_epoch
    assert machine.unregister(1) == ErrorCode.NONE
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2,))
    with pytest.raises(ApiError) as refused:
        machine.cluster.check_broker_epoch(1, before)
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert machine.register(1).broker_epoch > before
    assert machine.broker(1).fenced


@pytest.mark.parametrize("elr", [False, True])
def test_a_forgotten_broker_leads_its_last_copies_only_with_the_disk_that_has_them(
    elr: bool,
) -> None:
    machine = Machine(brokers_up=2, elr=elr)
    machine.create("t", replicas=[(2,)])
    machine.fence(2)
    machine.unregister(2)
    assert machine.state("t").leader == NO_LEADER
    machine.come_up(2, incarnation=2, directories=[5])
    assert machine.state("t").leader == NO_LEADER, "an empty disk would make all copies empty"
    machine.fence(2)
    machine.come_up(2, incarnation=3)
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2,))


def test_a_snapshot_does_not_bring_a_forgotten_broker_back() -> None:
    machine = Machine(brokers_up=2)
    machine.unregister(2)
    machine.come_up(2, incarnation=2)
    machine.unregister(2)
    image = MetadataImage()
    for offset, record in enumerate(machine.image.to_records()):
        image.apply(record, offset)
    assert list(image.brokers) == [1]


def test_the_registration_survives_a_snapshot() -> None:
    machine = Machine(brokers_up=2)
    machine.come_up(1, incarnation=2, rack="a")
    copy = MetadataImage()
    for offset, record in enumerate(machine.image.to_records()):
        copy.apply(record, offset)
    assert copy.brokers == machine.image.brokers
