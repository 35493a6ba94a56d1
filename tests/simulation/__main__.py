"""`python -m tests.simulation --seed N [--runs N] [--trace] [--logs]`: replay a seed, or explore.

Prints one line per run and, for a failing one, the end of its trace; exits 1 if any failed.
"""

import argparse
import sys
import time

from . import scenario
from .coverage import Coverage


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="how many seeds from there")
    parser.add_argument("--seconds", type=float, default=scenario.FAULT_SECONDS)
    parser.add_argument("--trace", action="store_true", help="print the whole trace")
    parser.add_argument("--logs", action="store_true", help="print the product's last log lines")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failing seed")
    options = parser.parse_args()
    failed: list[int] = []
    coverage = Coverage()
    for seed in range(options.seed, options.seed + options.runs):
        started = time.process_time()
        outcome = scenario.run(seed, options.seconds)
        took = time.process_time() - started
        coverage.add(outcome.coverage.counts)
        verdict = "ok" if outcome.violation is None else "FAILED"
        print(
            f"seed {seed:<6} {verdict:<6} {outcome.seconds:6.1f} s simulated in {took:5.2f} s,"
            f" {outcome.acknowledged_count:>6} acknowledged of {outcome.sent_count:>6},"
            f" {outcome.checks:>7} checks, trace {outcome.digest}",
            flush=True,
        )
        trace = outcome.world.trace
        if outcome.violation is not None:
            failed.append(seed)
            if not options.trace:
                print(trace.tail(80))
            print(f"seed {seed}: {outcome.violation}")
            print(f"replay with: make simulate SEED={seed}")
        if options.trace:
            print("\n".join(trace.lines))
        if options.logs:
            print_logs(outcome)
        if failed and not options.keep_going:
            break
    if options.runs > 1:
        print("\n".join(coverage.table()))
    if failed:
        print("failed seeds:", *failed)
    return 1 if failed else 0


def print_logs(outcome: scenario.Outcome) -> None:
    for when, who, record in outcome.world.logs:
        print(f"{when:11.6f}  {who:<12} {record.levelname:<8} {record.name}: {record.getMessage()}")


if __name__ == "__main__":
    sys.exit(main())
