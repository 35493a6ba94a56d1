"""How long writing stands still when something goes away: one distribution per kind of event.

Under a steady load with acks=all from our client and from librdkafka, both at defaults. A gap is
the longest time without an acknowledgement around the event. `elected` is when a surviving broker
names another leader, seen by asking it every few milliseconds. At the end the log is read and
compared with what was acknowledged.
"""

import signal
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minikafka import Admin, ConfigChange, ConfigResource, NewTopic
from minikafka.client.errors import ClientError
from minikafka.deploy.local_cluster import LocalCluster
from minikafka.protocol.codec import decode_response_frame, frame_request
from minikafka.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

from .steady import Librdkafka, Ours, Steady, lost_and_duplicated

TRIALS = 20
CONTROLLERS = 3
TOPIC = "failover"
CALM_SECONDS = 0.5
ENOUGH = 50
"""Acknowledgements after which writing goes on again."""
LIBRDKAFKA_TRIALS = 2
"""How often to wait for librdkafka at a SIGSTOP: its default patience is a minute."""
METADATA_VERSION = 9
POLL_SECONDS = 0.003


@dataclass
class Gaps:
    """What one kind of event did, in milliseconds, over some trials."""

    event: str
    ours: list[float] = field(default_factory=list)
    librdkafka: list[float] = field(default_factory=list)
    elected: list[float] = field(default_factory=list)
    failed_sends: int = 0
    lost: int = 0
    duplicated: int = 0

    def summary(self) -> dict[str, Any]:
        """For the results file."""
        return {
            "event": self.event,
            "trials": max(len(self.ours), len(self.elected)),
            **{name: _spread(getattr(self, name)) for name in ("ours", "librdkafka", "elected")},
            "failed_sends": self.failed_sends,
            "lost": self.lost,
            "duplicated": self.duplicated,
        }


def _spread(values: Sequence[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 1),
        "p99": round(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))], 1),
        "max": round(ordered[-1], 1),
        "count": len(ordered),
    }


class Bench:
    """A cluster under load, and what is done to it."""

    def __init__(self, cluster: LocalCluster, admin: Admin, writers: list[Steady]) -> None:
        self.cluster = cluster
        self.admin = admin
        self.writers = writers

    def leader(self) -> int:
        """Wait until all replicas are in sync; the broker that leads."""
        while True:
            partition = self.admin.describe_topics([TOPIC])[TOPIC].partitions[0]
            if len(partition.isr) == 3 and partition.leader_id >= 0:
                return partition.leader_id
            time.sleep(0.02)

    def calm(self) -> None:
        """Wait until both clients write as if nothing had happened."""
        now = time.perf_counter()
        for writer in self.writers:
            writer.wait_for_more(ENOUGH, now)
        time.sleep(CALM_SECONDS)

    def wait_until_elected(self, victim: int, began: float) -> float:
        """Milliseconds until a surviving broker names another leader."""
        survivor = next(node for node in self.cluster.layout.brokers if node.node_id != victim)
        while leader_according_to(survivor.host, survivor.port) in (victim, -1):
            time.sleep(POLL_SECONDS)
        return (time.perf_counter() - began) * 1000

    def gap(self, writer: Steady, began: float) -> float:
        """Milliseconds without an acknowledgement from the event until now."""
        return writer.longest_gap(began, time.perf_counter()) * 1000


def leader_according_to(host: str, port: int) -> int:
    """Ask one broker who leads; -1 where nobody does, or it does not say."""
    topics = [MetadataRequestTopic(name=TOPIC)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    try:
        with socket.create_connection((host, port), timeout=1.0) as connection:
            connection.sendall(b"".join(frame_request(request, METADATA_VERSION, 1, "bench")))
            with connection.makefile("rb") as stream:
                size = int.from_bytes(stream.read(4))
                frame = memoryview(stream.read(size))
        _, response = decode_response_frame(MetadataResponse, METADATA_VERSION, frame)
    except OSError:
        return -1
    return response.topics[0].partitions[0].leader_id


def _kill_leader(bench: Bench, gaps: Gaps, trial: int) -> None:
    victim = bench.leader()
    began = time.perf_counter()
    bench.cluster.kill(victim)
    gaps.elected.append(bench.wait_until_elected(victim, began))
    _note(bench, gaps, began, bench.writers)
    bench.cluster.restart(victim)


def _stop_leader(bench: Bench, gaps: Gaps, trial: int) -> None:
    """librdkafka is waited for in the first trials only."""
    victim = bench.leader()
    waited_for = bench.writers if trial < LIBRDKAFKA_TRIALS else bench.writers[:1]
    began = time.perf_counter()
    bench.cluster.kill(victim, signal.SIGSTOP)
    try:
        gaps.elected.append(bench.wait_until_elected(victim, began))
        _note(bench, gaps, began, waited_for)
    finally:
        bench.cluster.kill(victim, signal.SIGCONT)


def _shut_down(bench: Bench, gaps: Gaps, trial: int) -> None:
    victim = bench.leader()
    began = time.perf_counter()
    bench.cluster.stop_node(victim)
    _note(bench, gaps, began, bench.writers)
    bench.cluster.restart(victim)


def _roll(bench: Bench, gaps: Gaps, trial: int) -> None:
    """One broker of the round: stopped and started again, in sync before the next goes."""
    bench.leader()
    began = time.perf_counter()
    number = trial % 3 + 1
    bench.cluster.stop_node(number)
    bench.cluster.restart(number)
    bench.leader()
    _note(bench, gaps, began, bench.writers)


def _note(bench: Bench, gaps: Gaps, began: float, writers: list[Steady]) -> None:
    for writer in writers:
        writer.wait_for_more(ENOUGH, began)
        kind = gaps.ours if writer.name == Ours.name else gaps.librdkafka
        kind.append(bench.gap(writer, began))


def _kill_controller(bench: Bench, gaps: Gaps, trial: int) -> None:
    """`elected`: until a change of metadata is answered again; the gaps are those of writes."""
    leader_id = bench.admin.describe_metadata_quorum().leader_id
    victim = f"controller-{leader_id}"
    _change_something(bench.admin, trial)
    began = time.perf_counter()
    bench.cluster.kill(victim)
    while not _change_something(bench.admin, trial):
        pass
    gaps.elected.append((time.perf_counter() - began) * 1000)
    _note(bench, gaps, began, bench.writers)
    bench.cluster.restart(victim)


def _change_something(admin: Admin, trial: int) -> bool:
    change = ConfigChange("retention.ms", str(10**9 + trial))
    try:
        admin.incremental_alter_configs({ConfigResource.topic(TOPIC): [change]})
    except ClientError:
        return False
    return True


Event = Callable[[Bench, Gaps, int], None]
EVENTS: dict[str, Event] = {
    "SIGKILL of a leader": _kill_leader,
    "SIGSTOP of a leader": _stop_leader,
    "SIGKILL of the active controller": _kill_controller,
    "clean shutdown of a leader": _shut_down,
    "rolling restart": _roll,
}


def measure(event: str, trials: int = TRIALS, controllers: int = CONTROLLERS) -> Gaps:
    """Do one kind of event again and again to a new cluster."""
    gaps = Gaps(event)
    with LocalCluster(brokers=3, controllers=controllers) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 1, 3)])
            writers: list[Steady] = [
                Ours(cluster.bootstrap, TOPIC),
                Librdkafka(cluster.bootstrap, TOPIC),
            ]
            with writers[0], writers[1]:
                bench = Bench(cluster, admin, writers)
                for trial in range(trials):
                    bench.leader()
                    bench.calm()
                    EVENTS[event](bench, gaps, trial)
                bench.leader()
        gaps.failed_sends = sum(len(writer.failed) for writer in writers)
        gaps.lost, gaps.duplicated = lost_and_duplicated(cluster.bootstrap, TOPIC, writers)
    return gaps
