"""Finds the lines of deciding code that the seeds of an exploration reached.

Deciding code is what pyproject.toml lists as pure in the cluster's packages, and DECIDE_TOO. Lines
that run when a module is imported do not count, because every seed reaches them. Lines that only a
bug can reach do not count, nor does `__repr__`, which is for logs.
"""

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import coverage

from ..style.house_map import name_of, pure_modules

ROOT = Path(__file__).parents[2]
ROOMS = ("broker", "controller", "storage")
DECIDE_TOO = (
    "broker/partition/log_starts.py",
    "broker/partition/partition.py",
    "broker/partition/reading.py",
    "protocol/control/image.py",
    "storage/compaction/compactor.py",
    "storage/recovery.py",
)
"""Modules that decide too, but are not pure because they also carry out their decisions."""
LEAST = 0.9
"""The least share of these lines that `ENOUGH_SEEDS` seeds must reach, or an exploration fails."""
ENOUGH_SEEDS = 20


@dataclass(frozen=True, slots=True)
class ModuleLines:
    """One module: its lines inside of functions, and those that never ran."""

    name: str
    count: int
    missed: tuple[int, ...]

    def line(self) -> str:
        """Return a line for people: the share, the module's name, and the missed lines."""
        share = 1 - len(self.missed) / self.count if self.count else 1
        return f"{share:>7.1%} {self.name:<40} {', '.join(ranges(self.missed))}".rstrip()


def collected(directory: str) -> list[ModuleLines]:
    """Return the combined coverage of all seeds noted in the directory, the least covered first."""
    all_seeds = _collector(directory, ".coverage")
    all_seeds.combine([directory], keep=True)
    found = []
    for name in deciding_modules():
        path = str(ROOT / name)
        _, statements, _, missing, _ = all_seeds.analysis2(path)
        inside = lines_of_functions(path)
        count = sum(each in inside for each in statements)
        found.append(ModuleLines(name, count, tuple(each for each in missing if each in inside)))
    return sorted(found, key=lambda each: len(each.missed) / max(each.count, 1), reverse=True)


@contextmanager
def noted(directory: str, seed: int) -> Iterator[None]:
    """Note the lines that run in this block, in the directory, under this seed."""
    collector = _collector(directory, f".coverage.seed-{seed}")
    collector.start()
    try:
        yield
    finally:
        collector.stop()
        collector.save()


def _collector(directory: str, name: str) -> coverage.Coverage:
    return coverage.Coverage(
        data_file=str(Path(directory) / name),
        config_file=False,
        include=[str(ROOT / name) for name in deciding_modules()],
    )


def share(modules: list[ModuleLines]) -> float:
    """Return the share of all lines that ran."""
    return 1 - sum(len(each.missed) for each in modules) / sum(each.count for each in modules)


def table(modules: list[ModuleLines]) -> Iterator[str]:
    """Return a table for people, as lines."""
    yield "lines of what decides:"
    yield from (each.line() for each in modules)
    yield f"{share(modules):>7.1%} of {sum(each.count for each in modules)} lines"


@cache
def deciding_modules() -> tuple[str, ...]:
    """Return the paths of deciding modules, relative to the root of the repository."""
    return (*(name_of(path) for path in pure_modules(*ROOMS)), *DECIDE_TOO)


def lines_of_functions(path: str) -> frozenset[int]:
    """Return the lines of function bodies, except those that only a bug can reach."""
    inside: list[int] = []
    left_out: list[int] = []
    for node in ast.walk(ast.parse(Path(path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
            (left_out if node.name == "__repr__" else inside).extend(lines)
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id="InvariantViolation"))):
                left_out += range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return frozenset(inside).difference(left_out)


def ranges(lines: tuple[int, ...]) -> Iterator[str]:
    """Write line numbers as ranges, such as `3-5, 8`."""
    start = end = None
    for line in (*lines, None):
        if start is not None and end is not None and line != end + 1:
            yield f"{start}-{end}" if end > start else f"{start}"
            start = None
        start, end = (line if start is None else start), line
