"""The faults: each a generator that does the damage, waits at `yield`, and takes it back.

A fault names what it needs of the machine and of the nodes. `keeps_going` says that the cluster
must go on acknowledging while the fault lasts: with replication factor 3 and min.insync.replicas 2
it must whenever two brokers can talk to each other, to a controller and to the clients.
"""

import errno
import random
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ..support.cluster import Daemon
from . import needs
from .disks import LoopDisk, SmallDisk
from .lab import CLIENTS, Hardware, Lab

Damage = Callable[[Lab], Iterator[None]]
SLOW_LINK = "2mbit"
SLOW_SYNC_MS = 500
CLOCK_JUMP_S = 3600.0
FLUSH_OFTEN = {"flush.messages": "20"}
"""Settings for frequent syncs, because otherwise a failing sync might not happen during the fault.
"""


@dataclass(frozen=True)
class Fault:
    """One kind of damage."""

    name: str
    what: str
    damage: Damage
    seconds: float = 6.0
    keeps_going: bool = True
    is_promised: bool = True
    """True if no loss is allowed. If False, loss is expected, and shows that the damage is real."""
    needs: tuple[str, ...] = ()
    hardware: Hardware = field(default_factory=Hardware)


FAULTS: dict[str, Fault] = {}


def fault(what: str, **how: object) -> Callable[[Damage], Damage]:
    """Decorator that enters a generator into the table of faults, under its own name."""

    def enter(damage: Damage) -> Damage:
        name = damage.__name__.replace("_", "-")
        FAULTS[name] = Fault(name, what, damage, **how)  # type: ignore[arg-type]
        return damage

    return enter


# -- processes


def _dead(lab: Lab, *daemons: Daemon) -> Iterator[None]:
    for daemon in daemons:
        daemon.signal(signal.SIGKILL)
    for daemon in daemons:
        daemon.wait()
    yield
    lab.start()


@fault("SIGKILL of a leader")
def kill_leader(lab: Lab) -> Iterator[None]:
    yield from _dead(lab, lab.leader())


@fault("SIGKILL of a follower")
def kill_follower(lab: Lab) -> Iterator[None]:
    yield from _dead(lab, lab.follower())


@fault("SIGKILL of the active controller")
def kill_active_controller(lab: Lab) -> Iterator[None]:
    yield from _dead(lab, lab.active_controller())


@fault("SIGKILL of every broker and controller", seconds=2.0, keeps_going=False)
def kill_all(lab: Lab) -> Iterator[None]:
    yield from _dead(lab, *lab.daemons)


@fault("SIGTERM of a leader, and its restart")
def stop_leader(lab: Lab) -> Iterator[None]:
    leader = lab.leader()
    assert leader.stop() == 0
    yield
    leader.start()


def _asleep(*daemons: Daemon) -> Iterator[None]:
    for daemon in daemons:
        daemon.signal(signal.SIGSTOP)
    yield
    for daemon in daemons:
        daemon.signal(signal.SIGCONT)


@fault("SIGSTOP of a leader for longer than its session, then SIGCONT", seconds=6.0)
def pause_leader(lab: Lab) -> Iterator[None]:
    yield from _asleep(lab.leader())


@fault("SIGSTOP of a follower for longer than its session, then SIGCONT", seconds=6.0)
def pause_follower(lab: Lab) -> Iterator[None]:
    yield from _asleep(lab.follower())


@fault("SIGSTOP of the active controller, then SIGCONT", seconds=6.0)
def pause_active_controller(lab: Lab) -> Iterator[None]:
    yield from _asleep(lab.active_controller())


@fault("a leader may open no more files or connections", seconds=6.0)
def no_descriptors(lab: Lab) -> Iterator[None]:
    leader = lab.leader()
    _, hard = before = resource.prlimit(leader.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(leader.pid, resource.RLIMIT_NOFILE, (8, hard))
    yield
    if leader.is_running:
        resource.prlimit(leader.pid, resource.RLIMIT_NOFILE, before)
    lab.revive(leader)


# -- the network


def _healed(lab: Lab) -> Iterator[None]:
    yield
    lab.network.heal()


@fault("a leader is cut off from everybody", seconds=6.0)
def isolate_leader(lab: Lab) -> Iterator[None]:
    leader = lab.leader().name
    for other in lab.network.others(leader):
        lab.network.cut_both(leader, other)
    yield from _healed(lab)


@fault("a leader hears nobody, and is heard (one way)", seconds=6.0)
def deaf_leader(lab: Lab) -> Iterator[None]:
    leader = lab.leader().name
    for other in lab.network.others(leader):
        lab.network.cut(other, leader)
    yield from _healed(lab)


@fault("a leader hears everybody, and is not heard (one way)", seconds=6.0)
def mute_leader(lab: Lab) -> Iterator[None]:
    leader = lab.leader().name
    for other in lab.network.others(leader):
        lab.network.cut(leader, other)
    yield from _healed(lab)


@fault("a leader is cut off from the controllers only", seconds=6.0)
def leader_without_controllers(lab: Lab) -> Iterator[None]:
    leader = lab.leader().name
    for controller in lab.controllers:
        lab.network.cut_both(leader, controller.name)
    yield from _healed(lab)


@fault(
    "a leader and the clients are cut off from the other brokers and the controllers",
    keeps_going=False,
)
def leader_with_clients_in_the_minority(lab: Lab) -> Iterator[None]:
    minority = (lab.leader().name, CLIENTS)
    for one in minority:
        for other in lab.network.others(one):
            if other not in minority:
                lab.network.cut_both(one, other)
    yield from _healed(lab)


@fault("a leader and one follower are cut off from each other", seconds=6.0)
def cut_leader_from_follower(lab: Lab) -> Iterator[None]:
    lab.network.cut_both(lab.leader().name, lab.follower().name)
    yield from _healed(lab)


@fault("a follower hears no other broker (one way)", seconds=6.0)
def deaf_follower(lab: Lab) -> Iterator[None]:
    follower = lab.follower()
    for broker in lab.brokers:
        if broker is not follower:
            lab.network.cut(broker.name, follower.name)
    yield from _healed(lab)


@fault("the active controller is cut off from everybody", seconds=6.0)
def isolate_active_controller(lab: Lab) -> Iterator[None]:
    controller = lab.active_controller().name
    for other in lab.network.others(controller):
        lab.network.cut_both(controller, other)
    yield from _healed(lab)


@fault(f"a leader sends {SLOW_LINK}/s at most", needs=needs.LINKS)
def slow_link(lab: Lab) -> Iterator[None]:
    lab.network.slow(lab.leader().name, SLOW_LINK)
    yield from _healed(lab)


# -- disks


@fault("a leader's disk is full", needs=("umount",), hardware=Hardware(disk="small"))
def disk_full(lab: Lab) -> Iterator[None]:
    leader = lab.leader()
    disk = lab.disks[leader.name]
    assert isinstance(disk, SmallDisk)
    disk.fill()
    yield
    disk.free()
    _restart(lab, leader)


def _restart(lab: Lab, daemon: Daemon) -> None:
    """A broker whose directory failed comes back with a restart, whether it ended or lives on."""
    if daemon.is_running:
        daemon.signal(signal.SIGTERM)
        daemon.wait()
    lab.start()


def _lose_power(lab: Lab, *daemons: Daemon) -> Iterator[None]:
    """Kill these daemons, then let their disks lose unsynced data (see disks.py)."""
    for daemon in daemons:
        daemon.signal(signal.SIGKILL)
    for daemon in daemons:
        daemon.wait()
        disk = lab.disks[daemon.name]
        assert isinstance(disk, LoopDisk)
        disk.lose_power()
    yield
    lab.start()


@fault("power loss of a leader", needs=needs.DISKS, hardware=Hardware(disk="loop"))
def power_loss_of_leader(lab: Lab) -> Iterator[None]:
    yield from _lose_power(lab, lab.leader())


@fault("power loss of a follower", needs=needs.DISKS, hardware=Hardware(disk="loop"))
def power_loss_of_follower(lab: Lab) -> Iterator[None]:
    yield from _lose_power(lab, lab.follower())


@fault(
    "power loss of every broker and controller at once, with flush.policy=group",
    seconds=2.0,
    keeps_going=False,
    needs=needs.DISKS,
    hardware=Hardware(disk="loop", topic_settings={"flush.policy": "group"}),
)
def power_loss_of_all(lab: Lab) -> Iterator[None]:
    yield from _lose_power(lab, *lab.daemons)


@fault(
    "the same with flush.policy=none, where nothing is promised: the fault is real",
    seconds=2.0,
    keeps_going=False,
    is_promised=False,
    needs=needs.DISKS,
    hardware=Hardware(disk="loop"),
)
def power_loss_of_all_unflushed(lab: Lab) -> Iterator[None]:
    yield from _lose_power(lab, *lab.daemons)


SHIMMED = Hardware(shim=True, topic_settings=FLUSH_OFTEN)
GROUP_FLUSHED = Hardware(shim=True, topic_settings={"flush.policy": "group"})


@fault("every sync of a leader fails with EIO", needs=needs.SHIM, hardware=SHIMMED)
def failing_fsync(lab: Lab) -> Iterator[None]:
    leader = lab.leader()
    shim = lab.shims[leader.name]
    shim.fail_syncs(errno.EIO)
    yield
    assert shim.syncs_hit, "no sync was tried: the fault did nothing"
    shim.fail_syncs(0)
    _restart(lab, leader)


@fault(f"every sync of a leader takes {SLOW_SYNC_MS} ms longer", needs=needs.SHIM, hardware=SHIMMED)
def slow_fsync(lab: Lab) -> Iterator[None]:
    shim = lab.shims[lab.leader().name]
    shim.slow_syncs(SLOW_SYNC_MS)
    yield
    assert shim.syncs_hit, "no sync was tried: the fault did nothing"
    shim.slow_syncs(0)


@fault(
    f"every sync of a follower takes {SLOW_SYNC_MS} ms longer, with flush.policy=group",
    needs=needs.SHIM,
    hardware=GROUP_FLUSHED,
)
def slow_group_fsync(lab: Lab) -> Iterator[None]:
    shim = lab.shims[lab.follower().name]
    shim.slow_syncs(SLOW_SYNC_MS)
    yield
    assert shim.syncs_hit, "no sync was tried: the fault did nothing"
    shim.slow_syncs(0)


@fault(
    "every sync of a leader fails with EIO, with flush.policy=group",
    needs=needs.SHIM,
    hardware=GROUP_FLUSHED,
)
def failing_group_fsync(lab: Lab) -> Iterator[None]:
    yield from failing_fsync(lab)


# -- clocks


def _clock_off(lab: Lab, seconds: float) -> Iterator[None]:
    shim = lab.shims[lab.leader().name]
    shim.jump_clock(seconds)
    yield
    shim.jump_clock(0)


@fault("a leader's wall clock jumps an hour ahead, and back", needs=needs.SHIM, hardware=SHIMMED)
def clock_ahead(lab: Lab) -> Iterator[None]:
    yield from _clock_off(lab, CLOCK_JUMP_S)


@fault("a leader's wall clock jumps an hour back, and forth", needs=needs.SHIM, hardware=SHIMMED)
def clock_behind(lab: Lab) -> Iterator[None]:
    yield from _clock_off(lab, -CLOCK_JUMP_S)


# -- everything


MIXED_SEED = 20


@fault(
    "in turn, without a pause: a broker killed, one paused, leaders cut off one way and both",
    seconds=4.0,
)
def mixture(lab: Lab) -> Iterator[None]:
    dice = random.Random(MIXED_SEED)
    ways: list[Damage] = [
        lambda lab: _dead(lab, dice.choice(lab.brokers)),
        lambda lab: _asleep(dice.choice(lab.brokers)),
        isolate_leader,
        deaf_leader,
        mute_leader,
        cut_leader_from_follower,
    ]
    dice.shuffle(ways)
    for way in ways:
        yield from way(lab)
