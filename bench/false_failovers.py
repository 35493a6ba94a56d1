"""Nothing dies, everything is busy: does the cluster take a slow process for a dead one?

Twice as many processes as cores spin for ten minutes, beside a cluster under a steady load. Every
fencing of a broker, every change of a leader and of the active controller is counted: each is a
failover that nobody needed.

    python -m bench.false_failovers --seconds 60
"""

import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

import click

from minikafka import Admin, NewTopic
from minikafka.deploy.local_cluster import LocalCluster

from .steady import Ours

SECONDS = 600.0
CONTROLLERS = 3
PARTITIONS = 12
BURNERS_PER_CORE = 2
TOPIC = "busy"
BURN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


class FalseFailovers(NamedTuple):
    """What went wrong although nothing did."""

    seconds: float
    burners: int
    fenced: int
    leader_changes: int
    controller_changes: int
    longest_gap_ms: float
    """Longest time without an acknowledged write of our client."""
    acknowledged: int
    failed_sends: int


def measure(seconds: float = SECONDS, controllers: int = CONTROLLERS) -> FalseFailovers:
    """Keep every core busy for so long."""
    with (
        LocalCluster(brokers=3, controllers=controllers) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])
        writer = Ours(cluster.bootstrap, TOPIC)
        with writer:
            writer.wait_for_more(100)
            before = _epochs(admin)
            began = time.perf_counter()
            burners = [
                subprocess.Popen([sys.executable, "-c", BURN])
                for _ in range(BURNERS_PER_CORE * (os.cpu_count() or 1))
            ]
            try:
                time.sleep(seconds)
                longest = writer.longest_gap(began, time.perf_counter())
            finally:
                for burner in burners:
                    burner.kill()
                    burner.wait()
        after = _epochs(admin)
        fenced = _fencings(cluster)
    return FalseFailovers(
        seconds=seconds,
        burners=len(burners),
        fenced=fenced,
        leader_changes=sum(after[1][p] - before[1][p] for p in before[1]),
        controller_changes=after[0] - before[0],
        longest_gap_ms=round(longest * 1000, 1),
        acknowledged=len(writer.times),
        failed_sends=len(writer.failed),
    )


def _epochs(admin: Admin) -> tuple[int, dict[int, int]]:
    """The epoch of the active controller, and of every partition's leader."""
    partitions = admin.describe_topics([TOPIC])[TOPIC].partitions
    leaders = {partition.partition: partition.leader_epoch for partition in partitions}
    return admin.describe_metadata_quorum().leader_epoch, leaders


def _fencings(cluster: LocalCluster) -> int:
    """Count what the controllers said while the cluster still ran."""
    logs = (node.log_path.read_text() for node in cluster.layout.controllers)
    return sum(log.count("fencing broker") for log in logs)


@click.command(help=__doc__)
@click.option("--seconds", type=float, default=SECONDS, show_default=True)
@click.option("--controllers", type=int, default=CONTROLLERS, show_default=True)
def main(seconds: float, controllers: int) -> None:
    """Measure, and print what was found."""
    click.echo(json.dumps(measure(seconds, controllers)._asdict()))


if __name__ == "__main__":
    main()
