"""Runs the simulator on a mutant until a seed catches it, or the tests that its patch names.

A seed or test that fails without the patch as well catches nothing: it is skipped, and said.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .tree import ROOT, NotAMutant, Patch, apply, copy_product

PASSED, FAILED = 0, 1
"""Exit codes of pytest; the others say that it ran nothing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one patch."""

    patch: Patch
    refused: str | None = None
    """Why it is no mutant."""
    seed: int | None = None
    """The seed that caught it."""
    test: str | None = None
    """The test that caught it."""
    finding: str = ""
    """What the simulator or the test said then."""
    runs: int = 0
    """Seeds or tests tried, the catching one included."""

    @property
    def is_caught(self) -> bool:
        return self.seed is not None or self.test is not None


@dataclass(frozen=True, slots=True)
class Run:
    """The first failing seed of a range, if any, and how many were tried."""

    runs: int
    seed: int | None
    finding: str


def hunt(patch: Patch, first_seed: int, seeds: int, jobs: int) -> Verdict:
    """Plant the bug in a copy of the product and simulate seed after seed.

    The seeds that draw a fault which the patch names come first: most need little else.
    """
    with tempfile.TemporaryDirectory(prefix="minikafka-mutant-") as place:
        tree = Path(place)
        copy_product(tree)
        try:
            apply(patch, tree)
        except NotAMutant as error:
            return Verdict(patch, refused=str(error))
        if patch.tests:
            return test(patch, tree)
        tried = 0
        for fault in (*patch.faults, None):
            next_seed, end = first_seed, first_seed + seeds
            while next_seed < end:
                run = simulate(tree, next_seed, end - next_seed, jobs, fault)
                tried += run.runs
                if run.seed is None:
                    break
                if simulate(ROOT, run.seed, 1, 1).seed is None:
                    return Verdict(patch, seed=run.seed, finding=run.finding, runs=tried)
                print(f"seed {run.seed} fails without the patch as well: skipped", file=sys.stderr)
                next_seed = run.seed + 1
        return Verdict(patch, runs=tried)


def test(patch: Patch, tree: Path) -> Verdict:
    """Run the tests that the patch names, up to the first that the mutant fails."""
    for tried, name in enumerate(patch.tests, 1):
        code, finding = run_test(tree, name)
        if code not in (PASSED, FAILED):
            return Verdict(patch, refused=f"{name} cannot be run: {finding}")
        if code == FAILED and run_test(ROOT, name)[0] == PASSED:
            return Verdict(patch, test=name, finding=finding, runs=tried)
        if code == FAILED:
            print(f"{name} fails without the patch as well: skipped", file=sys.stderr)
    return Verdict(patch, runs=len(patch.tests))


def run_test(tree: Path, name: str) -> tuple[int, str]:
    """Run one test of `tree`; pytest's exit code, and what it says went wrong."""
    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, name],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": f"{tree / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout.splitlines()
    errors = [line[2:].strip() for line in said if line.startswith("E ")]
    return done.returncode, next(iter(errors or said[-1:]), "")


def simulate(tree: Path, seed: int, runs: int, jobs: int, fault: str | None = None) -> Run:
    """Run the simulator of `tree` on `runs` seeds from `seed` on, up to the first that fails.

    With a fault: on those of them which draw it.
    """
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        arguments = ["--seed", str(seed), "--runs", str(runs), "--jobs", str(jobs)]
        if fault is not None:
            arguments += ["--fault", fault]
        environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}", "PYTHONHASHSEED": "0"}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        done = subprocess.run(
            [sys.executable, "-m", "tests.simulation", *arguments, "--json", report.name],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        text = Path(report.name).read_text()
    if not text:
        # It did not get as far as a report: the mutant cannot even be imported, or was killed.
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return Run(1, seed, f"the simulator ended: {words[-1] if words else done.returncode}")
    found = json.loads(text)
    failed = sorted((int(seed), finding) for seed, finding in found["failed"].items())
    return Run(found["runs"], *(failed[0] if failed else (None, "")))
