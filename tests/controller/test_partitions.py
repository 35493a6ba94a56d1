"""ISR changes and elections, as the controller decides them."""

from typing import Any

import pytest

from minikafka.controller.metadata.partitions import alter_partitions
from minikafka.protocol.control.messages import AlterPartitions, IsrMember, PartitionChange
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.types import NO_LEADER

from .machine import Machine, error


@pytest.fixture
def machine() -> Machine:
    """Topic t: one partition on 1, 2, 3, led by 1; unclean election off."""
    made = Machine(brokers_up=3)
    assert error(made.create("t", replicas=[(1, 2, 3)])) == 0
    return made


def test_a_leader_shrinks_and_expands_its_isr(machine: Machine) -> None:
    answer = machine.alter("t", [1, 2])
    assert (answer.error, answer.isr, answer.partition_epoch) == (0, (1, 2), 1)
    assert machine.state("t").leader_epoch == 0
    assert machine.alter("t", [1, 2, 3]).isr == (1, 2, 3)
    assert machine.state("t").partition_epoch == 2


def test_a_change_that_changes_nothing_succeeds_and_writes_nothing(machine: Machine) -> None:
    length = len(machine.log)
    answer = machine.alter("t", [1, 2, 3])
    assert (answer.error, answer.partition_epoch) == (0, 0)
    assert len(machine.log) == length


def test_b_05_a_fenced_broker_does_not_join_though_no_epoch_changed(machine: Machine) -> None:
    machine.alter("t", [1, 2])
    before = machine.state("t")
    machine.fence(3)
    assert machine.state("t") == before
    assert error(machine.alter("t", [1, 2, 3])) == ErrorCode.INELIGIBLE_REPLICA
    assert machine.state("t") == before


def test_b_06_an_emptied_broker_does_not_join_on_the_merit_of_its_old_self(
    machine: Machine,
) -> None:
    """The leader saw broker 3 in sync, then 3 restarts empty before the proposal arrives."""
    machine.alter("t", [1, 2])
    old_epoch = machine.broker(3).broker_epoch
    machine.fence(3)
    machine.come_up(3, incarnation=2, directories=[7])
    assert machine.broker(3).broker_epoch > old_epoch
    answer = machine.alter("t", [1, 2, 3], epochs={3: old_epoch})
    assert error(answer) == ErrorCode.INELIGIBLE_REPLICA
    assert "the proposal means" in answer.message
    assert machine.state("t").isr == (1, 2)
    assert error(machine.alter("t", [1, 2, 3])) == 0


def test_b_08_an_old_partition_epoch_loses_the_race(machine: Machine) -> None:
    machine.alter("t", [1, 2])
    answer = machine.alter("t", [1], partition_epoch=0)
    assert error(answer) == ErrorCode.INVALID_UPDATE_VERSION
    assert machine.state("t").isr == (1, 2)


@pytest.mark.parametrize("ahead", [{"partition_epoch": 9}, {"leader_epoch": 9}])
def test_b_09_epochs_from_the_future_mean_that_this_controller_is_old(
    machine: Machine, ahead: dict[str, Any]
) -> None:
    assert error(machine.alter("t", [1], **ahead)) == ErrorCode.NOT_CONTROLLER


def test_b_10_a_zombie_leader_is_fenced(machine: Machine) -> None:
    machine.fence(1)
    assert (machine.state("t").leader, machine.state("t").leader_epoch) == (2, 1)
    answer = machine.alter("t", [1], sender=1, leader_epoch=0, partition_epoch=0)
    assert error(answer) == ErrorCode.FENCED_LEADER_EPOCH


def test_b_23_a_broker_on_its_way_out_does_not_come_back_in(machine: Machine) -> None:
    machine.create("other", replicas=[(3, 1)])
    machine.beat(3, want_shutdown=True)
    assert machine.state("t").isr == (1, 2)
    answer = machine.alter("t", [1, 2, 3])
    assert error(answer) == ErrorCode.INELIGIBLE_REPLICA
    assert "shutting down" in answer.message


def test_b_25_a_change_for_the_deleted_topic_does_not_hit_its_namesake(machine: Machine) -> None:
    old_id = machine.image.topic_ids["t"]
    machine.delete("t")
    machine.create("t", replicas=[(1, 2, 3)])
    answer = machine.alter("t", [1], topic_id=old_id)
    assert error(answer) == ErrorCode.UNKNOWN_TOPIC_ID
    assert machine.state("t").isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("isr", "how", "expected"),
    [
        ([], {}, ErrorCode.INVALID_REQUEST),
        ([1, 1], {}, ErrorCode.INVALID_REQUEST),
        ([2, 3], {}, ErrorCode.INVALID_REQUEST),
        ([1, 4], {}, ErrorCode.INVALID_REQUEST),
        ([1], {"recovering": True}, ErrorCode.INVALID_REQUEST),
        ([1], {"sender": 2}, ErrorCode.INVALID_REQUEST),
        ([1], {"partition": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        # Sender before epoch, epoch before members: the first check that fails is the answer.
        ([9], {"sender": 2, "partition_epoch": -1}, ErrorCode.INVALID_REQUEST),
        ([9], {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ([9], {"leader_epoch": -1, "sender": 2}, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_what_no_leader_may_propose(
    machine: Machine, isr: list[int], how: dict[str, Any], expected: ErrorCode
) -> None:
    machine.come_up(4)
    before = machine.state("t")
    assert error(machine.alter("t", isr, **how)) == expected
    assert machine.state("t") == before


def test_an_unknown_broker_epoch_refuses_the_whole_request(machine: Machine) -> None:
    decision = alter_partitions(machine.cluster, AlterPartitions(1, 999, ()))
    assert error(decision.answer) == ErrorCode.STALE_BROKER_EPOCH
    decision = alter_partitions(machine.cluster, AlterPartitions(77, 1, ()))
    assert error(decision.answer) == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_one_request_changes_a_partition_once(machine: Machine) -> None:
    change = PartitionChange(machine.image.topic_ids["t"], 0, 0, 0, (IsrMember(1, -1),))
    request = AlterPartitions(1, machine.broker(1).broker_epoch, (change, change))
    answer = machine.carry_out(alter_partitions(machine.cluster, request))
    assert [each.error for each in answer.partitions] == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert machine.state("t").partition_epoch == 1


def test_the_last_of_the_isr_stays_though_it_is_gone(machine: Machine) -> None:
    """A5.5: without it nobody could tell afterwards who has everything."""
    machine.fence(1)
    machine.fence(3)
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2,))
    machine.fence(2)
    assert (machine.state("t").leader, machine.state("t").isr) == (NO_LEADER, (2,))
    epoch = machine.state("t").leader_epoch
    machine.beat(1)
    machine.beat(3)
    assert machine.state("t").leader == NO_LEADER
    machine.beat(2)
    assert (machine.state("t").leader, machine.state("t").isr) == (2, (2,))
    assert machine.state("t").leader_epoch == epoch + 1


def test_everyone_killed_at_once_comes_back_with_a_leader_that_was_in_sync() -> None:
    machine = Machine(brokers_up=3)
    machine.create("t", 6, 3)
    for broker_id in (2, 3, 1):
        machine.come_up(broker_id, incarnation=2)
    for state in machine.states("t"):
        assert state.leader == 1
        assert state.isr == (1,)


def test_unclean_election_takes_the_first_that_lives_and_marks_it(machine: Machine) -> None:
    machine.configure("t", unclean_leader_election_enable="true")
    machine.fence(3)
    machine.alter("t", [1])
    machine.fence(1)
    state = machine.state("t")
    assert (state.leader, state.isr, state.recovering) == (2, (2,), True)
    assert state.unclean_epoch == state.leader_epoch == 2


def test_while_recovering_the_leader_is_alone_until_it_says_so(machine: Machine) -> None:
    machine.configure("t", unclean_leader_election_enable="true")
    machine.alter("t", [1])
    machine.fence(1)
    assert machine.state("t").recovering
    assert error(machine.alter("t", [2, 3], recovering=True)) == ErrorCode.INVALID_REQUEST
    answer = machine.alter("t", [2])
    assert (answer.error, answer.recovering) == (0, False)
    assert machine.state("t").unclean_epoch == 2
    assert error(machine.alter("t", [2, 3])) == 0


@pytest.mark.parametrize("where", ["topic", "cluster"])
def test_e_12_switching_unclean_election_on_elects_at_once(machine: Machine, where: str) -> None:
    machine.alter("t", [1])
    machine.fence(1)
    assert machine.state("t").leader == NO_LEADER
    epoch = machine.state("t").leader_epoch
    if where == "topic":
        answer = machine.configure("t", unclean_leader_election_enable="true")
    else:
        answer = machine.configure_all_brokers(unclean_leader_election_enable="true")
    assert error(answer) == 0
    state = machine.state("t")
    assert (state.leader, state.leader_epoch, state.recovering) == (2, epoch + 1, True)


def test_a_topic_may_forbid_what_the_cluster_allows(machine: Machine) -> None:
    machine.configure("t", unclean_leader_election_enable="false")
    machine.alter("t", [1])
    machine.fence(1)
    machine.configure_all_brokers(unclean_leader_election_enable="true")
    assert machine.state("t").leader == NO_LEADER
    machine.configure("t", operation=1, unclean_leader_election_enable=None)
    assert machine.state("t").leader == 2


def test_validate_only_elects_nobody(machine: Machine) -> None:
    machine.alter("t", [1])
    machine.fence(1)
    machine.configure("t", unclean_leader_election_enable="true", validate_only=True)
    assert machine.state("t").leader == NO_LEADER


def test_an_outsider_that_returns_leads_where_unclean_election_is_allowed() -> None:
    machine = Machine(brokers_up=2, unclean=True)
    machine.create("t", replicas=[(1, 2)])
    machine.fence(2)
    machine.fence(1)
    assert machine.state("t").leader == NO_LEADER
    machine.beat(2)
    state = machine.state("t")
    assert (state.leader, state.isr, state.recovering) == (2, (2,), True)


def test_an_emptied_last_member_of_the_isr_does_not_lead(machine: Machine) -> None:
    """Its copy was the last one in sync: electing it empty would truncate everybody else."""
    machine.fence(1, 2, 3)
    assert machine.state("t").isr == (3,)
    machine.come_up(3, incarnation=2, directories=[7])
    machine.come_up(2, incarnation=2)
    assert (machine.state("t").leader, machine.state("t").isr) == (NO_LEADER, (3,))
    # Again, and then with the right disk mounted at last.
    machine.fence(3)
    machine.come_up(3, incarnation=3, directories=[8])
    assert machine.state("t").leader == NO_LEADER
    machine.fence(3)
    machine.come_up(3, incarnation=4)
    assert (machine.state("t").leader, machine.state("t").isr) == (3, (3,))
    assert machine.state("t").directories == ()


def test_an_emptied_last_member_may_be_replaced_uncleanly(machine: Machine) -> None:
    machine.fence(1, 2, 3)
    machine.come_up(3, incarnation=2, directories=[7])
    machine.come_up(2, incarnation=2)
    machine.configure("t", unclean_leader_election_enable="true")
    state = machine.state("t")
    assert (state.leader, state.isr, state.recovering, state.directories) == (2, (2,), True, ())


def test_an_emptied_sole_replica_is_elected_uncleanly_only() -> None:
    machine = Machine(brokers_up=1)
    machine.create("t", replicas=[(1,)])
    machine.fence(1)
    machine.come_up(1, incarnation=2, directories=[7])
    assert machine.state("t").leader == NO_LEADER
    machine.configure("t", unclean_leader_election_enable="true")
    assert (machine.state("t").leader, machine.state("t").recovering) == (1, True)
    machine.come_up(1, incarnation=3, directories=[7])
    assert machine.state("t").leader == 1


def test_an_emptied_member_among_others_just_leaves_the_isr(machine: Machine) -> None:
    machine.fence(3)
    machine.come_up(3, incarnation=2, directories=[7])
    assert (machine.state("t").isr, machine.state("t").directories) == ((1, 2), ())
