"""Who counts as alive, and what is asked before someone does not. Session time: 2,000 ms."""

import pytest

from minikafka.controller.leases import (
    LeaseEffect,
    LeaseExpired,
    Leases,
    Probe,
    ProbeOutcome,
    Warning,
)
from minikafka.protocol.control.heartbeat import Heartbeat
from minikafka.protocol.control.image import BrokerRegistration

INCARNATION = b"i" * 16


def registration(broker_id: int = 1, epoch: int = 5, *, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(broker_id, epoch, INCARNATION, (), (), None, {}, fenced)


def datagram(sequence: int, *, epoch: int = 5, incarnation: bytes = INCARNATION) -> Heartbeat:
    return Heartbeat("cluster", 1, epoch, incarnation, sequence)


class Watch:
    """Broker 1 registered at 0 ms, connected."""

    def __init__(self) -> None:
        self.leases = Leases(session_ms=2000)
        self.leases.on_registered(registration(), 0)
        self.leases.on_connection_opened(1, 5, 0)

    def pass_time(self, until_ms: int) -> list[LeaseEffect]:
        """Every deadline up to then, each noticed when it is due."""
        effects: list[LeaseEffect] = []
        while (due := self.leases.next_deadline_ms()) is not None and due <= until_ms:
            effects.extend(self.leases.on_deadline(due))
        return effects


def kinds(effects: list[LeaseEffect]) -> list[type]:
    return [type(effect) for effect in effects]


def test_progress_on_the_control_connection_keeps_the_lease() -> None:
    watch = Watch()
    for now in range(0, 20_000, 500):
        watch.leases.on_heartbeat(datagram(now), now)
        watch.leases.on_control_contact(1, 5, now)
        assert watch.pass_time(now + 499) == []


def test_without_progress_for_the_session_time_it_ends() -> None:
    """Though datagrams go on arriving: the control connection is what matters."""
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 1500)
    assert watch.pass_time(1999) == []
    (expired,) = watch.pass_time(2000)
    assert isinstance(expired, LeaseExpired)
    assert "no progress" in expired.reason
    assert not watch.leases.is_live(1)
    assert watch.leases.next_deadline_ms() is None


def test_heartbeats_that_stop_are_looked_into() -> None:
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 100)
    watch.leases.on_control_contact(1, 5, 2000)
    (probe,) = watch.pass_time(2100)
    assert probe == Probe(1, 5)
    (expired,) = watch.leases.on_probed(Probe(1, 5), ProbeOutcome.REFUSED)
    assert isinstance(expired, LeaseExpired)


@pytest.mark.parametrize("outcome", [ProbeOutcome.REFUSED, ProbeOutcome.SILENT])
def test_progress_over_tcp_wins_over_any_silence_of_datagrams(outcome: ProbeOutcome) -> None:
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 100)
    watch.leases.on_control_contact(1, 5, 2000)
    assert kinds(watch.pass_time(2100)) == [Probe]
    watch.leases.on_control_contact(1, 5, 2500)
    assert kinds(watch.leases.on_probed(Probe(1, 5), outcome)) == [Warning]
    assert watch.pass_time(4499) == []
    assert kinds(watch.pass_time(4500)) == [LeaseExpired]


def test_a_probe_that_is_lost_too_leaves_it_to_tcp() -> None:
    """Datagrams and probes are both lost on the way: the control connection has its session."""
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 100)
    watch.leases.on_control_contact(1, 5, 2000)
    assert kinds(watch.pass_time(2100)) == [Probe]
    assert kinds(watch.leases.on_probed(Probe(1, 5), ProbeOutcome.SILENT)) == [Warning]
    assert watch.pass_time(3999) == []
    assert kinds(watch.pass_time(4000)) == [LeaseExpired]


@pytest.mark.parametrize("forged", [(1 << 63) - 1, 5000])
def test_a_forged_datagram_does_not_make_true_ones_late(forged: int) -> None:
    """Not while they arrive; and if it was the first, only for a session."""
    watch = Watch()
    for now in range(0, 20_000, 500):
        watch.leases.on_heartbeat(datagram(now // 500 + 1), now)
        watch.leases.on_heartbeat(datagram(forged), now)
        watch.leases.on_control_contact(1, 5, now)
        assert watch.pass_time(now + 499) == []
    other = Watch()
    other.leases.on_heartbeat(datagram(forged), 0)
    seen: list[LeaseEffect] = []
    for now in range(1, 20_000, 500):
        other.leases.on_heartbeat(datagram(now // 500 + 1), now)
        other.leases.on_control_contact(1, 5, now)
        seen += other.pass_time(now + 499)
    assert kinds(seen) in ([], [Probe])
    assert other.leases[1].sequence == 40


def test_if_it_answers_tcp_suffices_until_heartbeats_come_again() -> None:
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 100)
    watch.leases.on_control_contact(1, 5, 2000)
    assert kinds(watch.pass_time(2100)) == [Probe]
    (warning,) = watch.leases.on_probed(Probe(1, 5), ProbeOutcome.ANSWERED)
    assert isinstance(warning, Warning)
    watch.leases.on_control_contact(1, 5, 3000)
    assert watch.pass_time(4999) == []
    watch.leases.on_heartbeat(datagram(2), 4000)
    watch.leases.on_control_contact(1, 5, 5900)
    assert kinds(watch.pass_time(6000)) == [Probe]
    # Said once per start of a broker.
    assert watch.leases.on_probed(Probe(1, 5), ProbeOutcome.ANSWERED) == []


def test_where_heartbeats_never_arrive_one_warning_is_given() -> None:
    watch = Watch()
    seen: list[LeaseEffect] = []
    for now in range(0, 10_000, 500):
        watch.leases.on_control_contact(1, 5, now)
        seen += watch.pass_time(now)
    assert kinds(seen) == [Warning]


def test_a_crash_is_known_at_once() -> None:
    watch = Watch()
    assert watch.leases.on_connection_lost(1, 5) == [Probe(1, 5)]
    (expired,) = watch.leases.on_probed(Probe(1, 5), ProbeOutcome.REFUSED)
    assert isinstance(expired, LeaseExpired)
    assert "crashed" in expired.reason


@pytest.mark.parametrize("outcome", [ProbeOutcome.ANSWERED, ProbeOutcome.SILENT])
def test_a_lost_connection_alone_proves_nothing(outcome: ProbeOutcome) -> None:
    watch = Watch()
    watch.leases.on_connection_lost(1, 5)
    assert watch.leases.on_probed(Probe(1, 5), outcome) == []
    assert watch.pass_time(1999) == []
    assert kinds(watch.pass_time(2000)) == [LeaseExpired]


@pytest.mark.parametrize("outcome", list(ProbeOutcome))
def test_a_broker_that_is_back_before_the_probe_is_not_given_up(outcome: ProbeOutcome) -> None:
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 0)
    watch.leases.on_connection_lost(1, 5)
    watch.leases.on_connection_opened(1, 5, 10)
    assert watch.leases.on_probed(Probe(1, 5), outcome) == []
    assert watch.leases.is_live(1)


def test_a_heartbeat_that_was_only_late_ends_the_doubt() -> None:
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 100)
    watch.leases.on_control_contact(1, 5, 2000)
    assert kinds(watch.pass_time(2100)) == [Probe]
    watch.leases.on_heartbeat(datagram(2), 2101)
    assert watch.leases.on_probed(Probe(1, 5), ProbeOutcome.SILENT) == []


def test_a_second_connection_keeps_the_first_ones_loss_quiet() -> None:
    watch = Watch()
    watch.leases.on_connection_opened(1, 5, 0)
    assert watch.leases.on_connection_lost(1, 5) == []


def test_what_belongs_to_an_earlier_start_says_nothing_of_this_one() -> None:
    watch = Watch()
    watch.leases.on_connection_lost(1, 5)
    watch.leases.on_registered(registration(epoch=9), 100)
    assert watch.leases.on_probed(Probe(1, 5), ProbeOutcome.REFUSED) == []
    watch.leases.on_heartbeat(datagram(99, epoch=5), 1000)
    watch.leases.on_control_contact(1, 5, 1000)
    assert watch.leases.on_connection_lost(1, 5) == []
    assert watch.leases.is_live(1)
    assert kinds(watch.pass_time(2100)) == [LeaseExpired]


@pytest.mark.parametrize(
    "old",
    [datagram(4), datagram(5), datagram(9, incarnation=b"x" * 16), datagram(9, epoch=4)],
)
def test_only_newer_datagrams_of_the_same_start_count(old: Heartbeat) -> None:
    watch = Watch()
    watch.leases.on_heartbeat(datagram(5), 100)
    watch.leases.on_heartbeat(old, 1900)
    watch.leases.on_control_contact(1, 5, 2000)
    assert kinds(watch.pass_time(2100)) == [Probe]


def test_a_broker_that_speaks_again_lives_again() -> None:
    watch = Watch()
    watch.pass_time(2000)
    watch.leases.on_control_contact(1, 5, 60_000)
    assert watch.leases.is_live(1)
    assert kinds(watch.pass_time(61_999)) == [Warning]
    assert kinds(watch.pass_time(62_000)) == [LeaseExpired]


def test_d_08_a_controller_that_starts_gives_everyone_a_full_session() -> None:
    leases = Leases(session_ms=2000)
    leases.restart([registration(1), registration(2), registration(3, fenced=True)], 50_000)
    assert [leases.is_live(each) for each in (1, 2, 3)] == [True, True, False]
    for probe in leases.on_deadline(50_200):
        assert isinstance(probe, Probe)
        assert leases.on_probed(probe, ProbeOutcome.SILENT) == []
    assert leases.next_deadline_ms() == 52_000
    assert leases.on_deadline(51_999) == []
    assert kinds(leases.on_deadline(52_000)) == [LeaseExpired, LeaseExpired]


def test_a_broker_that_does_not_come_to_a_new_controller_is_probed() -> None:
    """It may have died with the old one: nobody should wait out a session to learn that."""
    leases = Leases(session_ms=2000)
    leases.restart([registration(1), registration(2), registration(3, fenced=True)], 0)
    leases.on_connection_opened(2, 5, 100)
    assert leases.next_deadline_ms() == 200
    assert leases.on_deadline(200) == [Probe(1, 5)]
    (expired,) = leases.on_probed(Probe(1, 5), ProbeOutcome.REFUSED)
    assert isinstance(expired, LeaseExpired)
    assert expired.broker_id == 1


@pytest.mark.parametrize("outcome", [ProbeOutcome.ANSWERED, ProbeOutcome.SILENT])
def test_one_that_is_only_slow_to_come_has_its_session(outcome: ProbeOutcome) -> None:
    leases = Leases(session_ms=2000)
    leases.restart([registration(1)], 0)
    assert leases.on_deadline(200) == [Probe(1, 5)]
    assert leases.on_probed(Probe(1, 5), outcome) == []
    assert leases.next_deadline_ms() == 2000


def test_a_17_a_controller_that_slept_blames_nobody() -> None:
    """What the brokers sent meanwhile lies unread in the socket."""
    watch = Watch()
    assert kinds(watch.leases.on_deadline(30_000)) == [Warning]
    assert watch.leases.is_live(1)
    assert kinds(watch.pass_time(32_000)) == [LeaseExpired]


def test_one_that_waits_to_be_probed_is_probed_once() -> None:
    watch = Watch()
    watch.leases.on_heartbeat(datagram(1), 0)
    watch.leases.on_control_contact(1, 5, 1000)
    assert kinds(watch.pass_time(2000)) == [Probe]
    assert watch.leases.on_connection_lost(1, 5) == []
    (expired,) = watch.leases.on_probed(Probe(1, 5), ProbeOutcome.REFUSED)
    assert isinstance(expired, LeaseExpired)


def test_the_least_offset_of_others_counts_those_never_heard_of() -> None:
    watch = Watch()
    watch.leases[1].metadata_offset = 7
    assert watch.leases.applied_by_others([1]) == 7
    assert watch.leases.applied_by_others([1, 2]) == -1
    assert watch.leases.applied_by_others([]) is None
