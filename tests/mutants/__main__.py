"""`python -m tests.mutants [NAME ...] [--patch FILE] [--seeds N] [--page FILE]`.

Plants each bug in a copy of the product and runs the simulator on it, or the test that its patch
names. Exits 0 when every one was caught, 1 when one was not, 2 when a patch does not apply or
changes nothing.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .hunt import Verdict, hunt
from .tree import Patch, known_patches

SEEDS = 500
PAGE_HEAD = """# Planted bugs

Each is the product with one thing wrong, as a patch in `tests/mutants/patches`. The simulator
(`docs/simulation.md`) runs on it seed after seed, from seed {first}, until its invariants or its
history checker catch it; a seed that fails without the patch as well does not count. A patch may
name a fault that the bug needs: of the seeds, those that draw it are tried first. The bound is
{seeds} seeds. Where the simulator does not get to see a bug, its patch names a test instead.
Written by `make mutants`.

| bug | what is wrong | caught by seed or test | tried | found by |
|---|---|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="planted bugs to try; all of them by default")
    parser.add_argument("--patch", type=Path, help="any other patch, made with `git diff`")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many to try at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--page", type=Path, help="write the table to this Markdown file")
    options = parser.parse_args()
    if options.patch is not None and not options.patch.is_file():
        parser.error(f"--patch {options.patch}: no such file")
    patches = [Patch(options.patch)] if options.patch else known_patches()
    if options.names:
        unknown = sorted(dict.fromkeys(options.names).keys() - {each.name for each in patches})
        if unknown:
            parser.error(f"no planted bug named {', '.join(unknown)}")
        patches = [each for each in patches if each.name in options.names]
    verdicts = try_all(patches, options)
    if options.page is not None:
        options.page.write_text(page(verdicts, options.seed, options.seeds))
    caught = sum(verdict.is_caught for verdict in verdicts)
    refused = sum(verdict.refused is not None for verdict in verdicts)
    print(f"{caught} of {len(verdicts) - refused} planted bugs caught, {refused} patches refused")
    if refused:
        return 2
    return 0 if caught == len(verdicts) else 1


def try_all(patches: list[Patch], options: argparse.Namespace) -> list[Verdict]:
    """One mutant per core; a single one gets all cores."""
    alone = len(patches) == 1
    started = time.monotonic()

    def one(patch: Patch) -> Verdict:
        verdict = hunt(patch, options.seed, options.seeds, options.jobs if alone else 1)
        print(f"{time.monotonic() - started:6.0f} s  {line(verdict)}", flush=True)
        return verdict

    with ThreadPoolExecutor(1 if alone else options.jobs) as pool:
        return list(pool.map(one, patches))


def line(verdict: Verdict) -> str:
    """The verdict for people."""
    name = f"{verdict.patch.name:<44}"
    if verdict.refused is not None:
        return f"{name} REFUSED: {verdict.refused}"
    if verdict.test is not None:
        return f"{name} {verdict.test}: {verdict.finding}"
    if verdict.is_caught:
        return f"{name} seed {verdict.seed} ({verdict.runs} tried): {verdict.finding}"
    return f"{name} NOT CAUGHT in {verdict.runs} {'tests' if verdict.patch.tests else 'seeds'}"


def page(verdicts: list[Verdict], first: int, seeds: int) -> str:
    """The table as Markdown."""
    rows = []
    for verdict in verdicts:
        catcher = verdict.test or f"{verdict.seed}" if verdict.is_caught else "**not caught**"
        finding = verdict.refused or verdict.finding
        cells = (verdict.patch.name, verdict.patch.story, catcher, str(verdict.runs), finding)
        rows.append("| " + " | ".join(map(_in_one_line, cells)) + " |\n")
    return PAGE_HEAD.format(first=first, seeds=seeds) + "".join(rows)


def _in_one_line(cell: str) -> str:
    """A cell of a table: what an error says may have several lines, which would end its row."""
    return " ".join(cell.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
