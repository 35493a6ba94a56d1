"""`python -m tests.simulation --seed N [--runs N] [--fault NAME]`: replay a seed, or explore.

Prints one line per run, the end of the trace of a failing run, and a summary of several runs. Exits
with 1 if a run failed (at the first one, unless told to go on) or if coverage is too low.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import explore, line_coverage, scenario
from .coverage import CELLS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds from there")
    parser.add_argument("--jobs", type=int, default=0, help="processes; default: all cores")
    parser.add_argument(
        "--fault", choices=CELLS["fault"], help="only the seeds that draw this fault"
    )
    parser.add_argument("--seconds", type=float, default=scenario.FAULT_SECONDS)
    parser.add_argument("--trace", action="store_true", help="one run: print the whole trace")
    parser.add_argument("--logs", action="store_true", help="one run: the daemons' last log lines")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failing seed")
    parser.add_argument("--coverage", action="store_true", help="which lines of decisions ran")
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    options = parser.parse_args()
    if options.trace or options.logs:
        return tell(options.seed, options.seconds, trace=options.trace, logs=options.logs)
    with tempfile.TemporaryDirectory(prefix="minikafka-coverage-") as place:
        return search(options, place if options.coverage else None)


def search(options: argparse.Namespace, lines_to: str | None) -> int:
    summary = explore.Summary()
    seeds: Sequence[int] = range(options.seed, options.seed + options.runs)
    if options.fault is not None:
        seeds = [seed for seed in seeds if options.fault in scenario.shape_of(seed).faults]
        if not seeds:
            print(f"no seed of these draws {options.fault}")
    jobs = options.jobs or explore.cores()
    reports = explore.run_many(seeds, options.seconds, jobs, lines_to)
    for report in reports:
        summary.add(report)
        if report.violation is not None:
            print(report.tail)
            print(f"seed {report.seed}: {report.violation}")
            print(f"replay with: make simulate SEED={report.seed}")
        print(report.line(), flush=True)
        if report.violation is not None and not options.keep_going:
            break
    if len(summary.reports) > 1:
        print("\n".join(summary.lines()))
    too_few_lines = False
    if lines_to is not None and seeds:
        modules = line_coverage.collected(lines_to)
        print("\n".join(line_coverage.table(modules)))
        is_enough = len(seeds) >= line_coverage.ENOUGH_SEEDS
        too_few_lines = is_enough and line_coverage.share(modules) < line_coverage.LEAST
    if options.json is not None:
        options.json.write_text(json.dumps(findings(summary), indent=1))
    if summary.failed:
        print("failed seeds:", *summary.failed)
    return 1 if summary.failed or summary.shortcomings or too_few_lines or not seeds else 0


def findings(summary: explore.Summary) -> dict[str, object]:
    """Return the first failing seed, its violations, and the number of runs, for programs."""
    failed = [each for each in summary.reports if each.violation is not None]
    first = failed[0] if failed else None
    return {
        "runs": len(summary.reports),
        "seed": first.seed if first is not None else None,
        "finding": first.violation if first is not None else None,
        "failed": {each.seed: each.violation for each in failed},
    }


def tell(seed: int, seconds: float, *, trace: bool, logs: bool) -> int:
    """Run one seed, and print the run in full."""
    outcome = scenario.run(seed, seconds)
    if trace:
        print("\n".join(outcome.world.trace.lines))
    if logs:
        for when, who, record in outcome.world.logs:
            told = f"{record.levelname:<8} {record.name}: {record.getMessage()}"
            print(f"{when:11.6f}  {who:<12} {told}")
    print(f"seed {seed}: {outcome.violation or 'ok'}, trace {outcome.digest}")
    return 1 if outcome.violation is not None else 0


if __name__ == "__main__":
    sys.exit(main())
