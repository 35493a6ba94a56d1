"""Runs many seeds on all cores, and summarises the results."""

import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn

from . import line_coverage, scenario
from .coverage import Coverage

TAIL = 80
"""The lines of a failing run's trace that are kept."""
SEEDS_PER_PROCESS = 25
"""The runs after which a worker process is replaced, because runs leave garbage behind."""
ENOUGH_RUNS = 100
"""The number of runs from which every counter of the coverage table must be above 0."""
MEDIAN_ACKNOWLEDGED = 1000
STUCK_CPU_SECONDS = 200
"""The CPU time after which a run counts as stuck in a process that never yields."""


class Stuck(KeyboardInterrupt):
    """Ends a stuck run; no handler of the program catches it."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one run, as its worker process sends it."""

    seed: int
    violation: str | None
    acknowledged_count: int
    sent_count: int
    checks: int
    seconds: float
    cpu_seconds: float
    digest: str
    counts: dict[str, int]
    tail: str

    def line(self) -> str:
        verdict = "ok" if self.violation is None else "FAILED"
        return (
            f"seed {self.seed:<6} {verdict:<6} {self.seconds:6.1f} s simulated in"
            f" {self.cpu_seconds:5.2f} s, {self.acknowledged_count:>6} acknowledged of"
            f" {self.sent_count:>6}, {self.checks:>7} checks, trace {self.digest}"
        )


def report_on(seed: int, seconds: float, lines_to: str | None = None) -> Report:
    """Run one seed; record the lines that it reaches in the directory `lines_to`."""
    if lines_to is None:
        return _report_on(seed, seconds)
    with line_coverage.noted(lines_to, seed):
        return _report_on(seed, seconds)


def _report_on(seed: int, seconds: float) -> Report:
    started = time.process_time()
    signal.signal(signal.SIGVTALRM, _on_stuck)
    signal.setitimer(signal.ITIMER_VIRTUAL, STUCK_CPU_SECONDS)
    try:
        outcome = scenario.run(seed, seconds)
    except Stuck as stuck:
        return Report(seed, str(stuck), 0, 0, 0, 0.0, STUCK_CPU_SECONDS, "", {}, "")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return Report(
        seed,
        outcome.violation,
        outcome.acknowledged_count,
        outcome.sent_count,
        outcome.checks,
        outcome.seconds,
        time.process_time() - started,
        outcome.digest,
        dict(outcome.coverage.counts),
        outcome.world.trace.tail(TAIL) if outcome.violation is not None else "",
    )


def _on_stuck(number: int, frame: FrameType | None) -> NoReturn:
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?"
    raise Stuck(f"spins: no end after {STUCK_CPU_SECONDS} s of CPU, last seen at {where}")


def _work(task: tuple[int, float, str | None]) -> Report:
    return report_on(*task)


def run_many(
    seeds: Sequence[int], seconds: float, jobs: int, lines_to: str | None = None
) -> Iterator[Report]:
    """Yield a report for each seed when it is ready; closing the generator stops the other runs.

    The processes are forked from a server that ran nothing else. Forked from a test run, they would
    inherit its libraries without their threads, and hold its pipes open if it dies.
    """
    tasks = [(seed, seconds, lines_to) for seed in seeds]
    if jobs == 1 or len(tasks) == 1:
        yield from map(_work, tasks)
        return
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([scenario.__name__])
    with context.Pool(jobs, maxtasksperchild=SEEDS_PER_PROCESS) as pool:
        yield from pool.imap_unordered(_work, tasks)


def cores() -> int:
    return len(os.sched_getaffinity(0))


@dataclass(slots=True)
class Summary:
    """The summary of the runs so far."""

    coverage: Coverage = field(default_factory=Coverage)
    reports: list[Report] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def add(self, report: Report) -> None:
        self.reports.append(report)
        self.coverage.add(report.counts)

    @property
    def failed(self) -> list[int]:
        return sorted(each.seed for each in self.reports if each.violation is not None)

    @property
    def shortcomings(self) -> list[str]:
        """The reasons why the runs prove less than so many should; none for few runs."""
        if len(self.reports) < ENOUGH_RUNS:
            return []
        short = [f"never happened: {cell}" for cell in self.coverage.missing]
        if self._median < MEDIAN_ACKNOWLEDGED:
            short.append(f"median of acknowledged records {self._median:.0f}")
        return short

    @property
    def _median(self) -> float:
        return statistics.median(each.acknowledged_count for each in self.reports)

    def lines(self) -> Iterator[str]:
        yield from self.coverage.table()
        simulated = sum(each.seconds for each in self.reports)
        cpu = sum(each.cpu_seconds for each in self.reports)
        minutes = (time.monotonic() - self.started) / 60
        yield (
            f"{len(self.reports)} runs, {len(self.failed)} failed;"
            f" acknowledged records per run: median {self._median:.0f},"
            f" least {min(each.acknowledged_count for each in self.reports)}"
        )
        yield (
            f"{simulated:.0f} s simulated at {simulated / cpu:.1f} s per second of a core;"
            f" {len(self.reports) / minutes:.1f} seeds per minute"
        )
        yield from self.shortcomings
