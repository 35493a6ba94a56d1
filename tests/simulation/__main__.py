"""`python -m tests.simulation --seed N [--runs N] [--fault NAME]`: replay a seed, or explore.

Prints one line per run, for a failing one the end of its trace, and for several what they add up
to. Exits 1 if a run failed (at the first one, unless told to go on) or proved too little.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import explore, scenario
from .coverage import FAULTS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds from there")
    parser.add_argument("--jobs", type=int, default=0, help="processes; default: all cores")
    parser.add_argument("--fault", choices=FAULTS, help="only the seeds that draw this fault")
    parser.add_argument("--seconds", type=float, default=scenario.FAULT_SECONDS)
    parser.add_argument("--trace", action="store_true", help="one run: print the whole trace")
    parser.add_argument("--logs", action="store_true", help="one run: the daemons' last log lines")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failing seed")
    parser.add_argument("--json", type=Path, help="write what was found to this file")
    options = parser.parse_args()
    if options.trace or options.logs:
        return tell(options.seed, options.seconds, trace=options.trace, logs=options.logs)
    return search(options)


def search(options: argparse.Namespace) -> int:
    summary = explore.Summary()
    seeds: Sequence[int] = range(options.seed, options.seed + options.runs)
    if options.fault is not None:
        seeds = [seed for seed in seeds if options.fault in scenario.shape_of(seed).faults]
        if not seeds:
            print(f"no seed of these draws {options.fault}")
    reports = explore.run_many(seeds, options.seconds, options.jobs or explore.cores())
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
    if options.json is not None:
        options.json.write_text(json.dumps(findings(summary), indent=1))
    if summary.failed:
        print("failed seeds:", *summary.failed)
    return 1 if summary.failed or summary.shortcomings or not seeds else 0


def findings(summary: explore.Summary) -> dict[str, object]:
    """For programs: the first failing seed, what it found, and after how many runs."""
    failed = [each for each in summary.reports if each.violation is not None]
    first = failed[0] if failed else None
    return {
        "runs": len(summary.reports),
        "seed": first.seed if first is not None else None,
        "finding": first.violation if first is not None else None,
        "failed": {each.seed: each.violation for each in failed},
    }


def tell(seed: int, seconds: float, *, trace: bool, logs: bool) -> int:
    """One run in full."""
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
