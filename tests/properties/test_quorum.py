"""Voters under any schedule: messages lost, late and out of order, crashes that lose the cache.

Invariants 16 and 17 hold after every step (they are in the lab); when the faults stop, somebody
leads and everybody has what was committed.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ..controller.quorum_lab import Lab

STEPS = 1000


class Fate:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.lab = Lab(rng.choice((1, 3, 3, 3, 5)), seed)
        self.lab.is_quick = False
        for host in self.lab.hosts.values():
            host.auto = host.flushes = False
        self.values = 0
        self.loss = rng.choice((0.0, 0.05, 0.3))
        self.crashes = rng.choice((0.0, 0.01, 0.03))
        self.snapshots = rng.choice((0.0, 0.02))
        self.cut: tuple[int, int] | None = None
        self.lab.cut = lambda source, target: (source, target) == self.cut

    def step(self) -> None:
        lab, rng = self.lab, self.rng
        host = rng.choice(list(lab.hosts.values()))
        chance = rng.random()
        if chance < self.crashes:
            if host.node is None:
                host.start()
            elif rng.random() < 0.5:
                lab.kill(host.node_id)
            else:
                host.crash()
        elif chance < self.crashes + self.snapshots:
            if host.high_watermark > host.log.start_offset:
                host.log.take_snapshot(host.high_watermark)
        elif chance < 0.45 and lab.wire:
            place = rng.randrange(len(lab.wire)) if rng.random() < 0.3 else 0
            if rng.random() < self.loss:
                source, target, (kind, ticket, _) = lab.wire.pop(place)
                lab.lose(source, target, kind, ticket)
            else:
                lab.deliver(place)
        elif chance < 0.65:
            host.flush()
        elif chance < 0.80:
            if host.saving is not None:
                host.finish_save()
        elif chance < 0.90:
            self.values += 1
            host.append(f"v{self.values}")
        elif chance < 0.905:
            ids = lab.voters
            self.cut = None if self.cut else (rng.choice(ids), rng.choice(ids))
        elif chance < 0.91 and host.node is not None:
            host.take(host.node.on_write_failed("planted", lab.now_ms))
        else:
            lab.advance(rng.choice((1, 5, 20, 100)))

    def make_whole(self) -> None:
        lab = self.lab
        self.cut = None
        lab.is_quick = True
        for host in lab.hosts.values():
            host.auto = host.flushes = True
            if host.node is None:
                host.start()
            if host.saving is not None:
                host.finish_save()
            host.flush()
        for _ in range(40):
            lab.run(200)
            if any(host.is_leader for host in lab.hosts.values()):
                break
        lab.run(3000)
        assert lab.leader.append("last")
        lab.run(2000)
        for host in lab.hosts.values():
            assert host.log.entries == lab.committed
            assert host.high_watermark == len(lab.committed)
        assert lab.committed[-1][1] == "last"


@given(st.integers(min_value=0, max_value=1 << 32))
@settings(max_examples=40)
def test_16_and_17_hold_after_every_step(seed: int) -> None:
    fate = Fate(seed)
    for _ in range(STEPS):
        fate.step()
    fate.make_whole()
    assert all(host.failed is None for host in fate.lab.hosts.values())
