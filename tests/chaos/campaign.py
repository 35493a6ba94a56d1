"""One fault in one cluster under load: it is done and undone, and the clients' history checked.

load runs -> damage -> a client is killed -> healed -> in sync again, every writer goes on
-> writers settle -> readers read to the end -> cluster stops -> replicas and history compared
"""

import itertools
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from minikafka import Consumer, TopicPartition

from .checker import check
from .client import PARTITIONS, TOPIC, value_of
from .crew import KINDS, Crew
from .faults import Fault
from .history import History, Reading
from .lab import CLIENTS, Lab
from .network import Network

WARM_UP_RECORDS = 200
CALM_SECONDS = 1.0
PROGRESS_RECORDS = 50
"""The records that every writer must get acknowledged within a minute after the fault."""


@dataclass
class Result:
    """What one fault came to."""

    fault: str
    what: str
    acknowledged: int = 0
    acknowledged_during: int = 0
    during_seconds: float = 0.0
    lost: int = 0
    duplicated: int = 0
    other_anomalies: int = 0
    gap_ms: dict[str, float] = field(default_factory=dict)
    """Longest time without an acknowledgement, in the worst partition, by kind of client."""
    recovered_seconds: float = 0.0
    """From the end of the fault until all replicas are in sync and every writer goes on."""
    is_promised: bool = True
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Was every promise kept?"""
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        """For the results file."""
        return asdict(self)


def run_fault(fault: Fault, network: Network, directory: Path) -> Result:
    """Run one fault on a new cluster; whatever is wrong is in the result's problems."""
    result = Result(fault.name, fault.what)
    with Lab(directory, network, fault.hardware) as lab:
        lab.start()
        lab.create_topic()
        crew = Crew(directory / "clients", lab.bootstrap, network.enter(CLIENTS))
        try:
            crew.start()
            crew.wait_for_progress(WARM_UP_RECORDS)
            time.sleep(CALM_SECONDS)
            began_ns = time.monotonic_ns()
            healed_ns = _suffer(fault, lab, crew)
            _recover(lab, crew, result)
            ended_ns = time.monotonic_ns()
            result.recovered_seconds = (ended_ns - healed_ns) / 1e9
            history = _finish(lab, crew, result, wait_for_readers=fault.is_promised)
        except AssertionError as error:
            result.problems.append(f"{type(error).__name__}: {error}")
            return result
        finally:
            crew.kill()
        lab.stop()
        result.problems += _divergence(lab)
    _judge(history, result, fault)
    _measure(history, result, (began_ns, healed_ns, ended_ns))
    if fault.keeps_going and not result.acknowledged_during:
        result.problems.append("nothing was acknowledged during the fault")
    return result


def _suffer(fault: Fault, lab: Lab, crew: Crew) -> int:
    """Do the damage and undo it; return the time when all of it was undone."""
    for _ in fault.damage(lab):
        time.sleep(fault.seconds / 2)
        crew.crash_one()
        time.sleep(fault.seconds / 2)
    return time.monotonic_ns()


def _recover(lab: Lab, crew: Crew, result: Result) -> None:
    """Wait until the cluster, without the fault, has recovered by itself."""
    died = [d.name for d in lab.daemons if not d.is_running]
    if died:
        result.problems.append(f"ended by itself: {', '.join(died)}")
        lab.start()
    crew.wait_for_progress(PROGRESS_RECORDS)
    lab.wait_for_full_isr()


def _finish(lab: Lab, crew: Crew, result: Result, *, wait_for_readers: bool) -> History:
    """Let all clients finish, and read all records."""
    result.problems += crew.stop_writers()
    final, ends = _read_all(lab.bootstrap)
    if wait_for_readers:
        result.problems += crew.finish_readers(ends)
    else:
        crew.kill()  # what they had read may be gone
    history = crew.history()
    history.final = final
    return history


def _read_all(bootstrap: str) -> tuple[list[Reading], dict[int, int]]:
    """Return every record of every partition, and the end offsets."""
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    readings = {partition: Reading("final", partition, 0) for partition in range(PARTITIONS)}
    with Consumer(bootstrap, auto_offset_reset="none") as consumer:
        ends = consumer.end_offsets(places)
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        while any(consumer.position(place) < ends[place] for place in places):
            for record in consumer.poll(timeout_ms=1000):
                pair = (record.offset, value_of(record.value or b""))
                readings[record.partition].records.append(pair)
    return list(readings.values()), {place.partition: end for place, end in ends.items()}


def _divergence(lab: Lab) -> list[str]:
    """Return the differences between logs of replicas that were in sync."""
    different: list[str] = []
    for partition in range(PARTITIONS):
        first, *others = (lab.log_bytes(broker, partition) for broker in lab.brokers)
        if any(other != first for other in others):
            different.append(f"replicas of partition {partition} differ")
    return different


def _judge(history: History, result: Result, fault: Fault) -> None:
    findings = check(history)
    result.acknowledged = sum(1 for _ in history.acknowledged())
    result.lost, result.duplicated = findings.lost, findings.duplicated
    result.other_anomalies = findings.others
    result.is_promised = fault.is_promised
    if fault.is_promised and findings:
        result.problems.append(str(findings))
    if not fault.is_promised and not findings.lost:
        result.problems.append("nothing was lost: the damage was not real")


def _measure(history: History, result: Result, times: tuple[int, int, int]) -> None:
    began_ns, healed_ns, ended_ns = times
    result.during_seconds = (healed_ns - began_ns) / 1e9
    answers: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for send in history.acknowledged():
        answers[send.writer.partition("-")[0], send.partition].append(send.ended_ns)
        result.acknowledged_during += began_ns <= send.ended_ns < healed_ns
    for kind in KINDS:
        gaps = [
            longest_gap(answers[kind, partition], began_ns, ended_ns)
            for partition in range(PARTITIONS)
        ]
        result.gap_ms[kind] = round(max(gaps) / 1e6, 1)


def longest_gap(times: Iterable[int], began: int, ended: int) -> int:
    """The longest time without an event between two times."""
    inside = sorted(time for time in times if began < time < ended)
    edges = [began, *inside, ended]
    return max(after - before for before, after in itertools.pairwise(edges))
