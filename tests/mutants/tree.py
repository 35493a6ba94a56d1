"""A copy of the product and its tests with one patch applied, run apart from the original.

A patch that does not apply, or that leaves the code of every module as it was, makes no mutant.
"""

import ast
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..style.house_map import ROOMS

ROOT = Path(__file__).parents[2]
PATCHES = Path(__file__).parent / "patches"
COPIED = (*ROOMS, "src", "tests", "pyproject.toml")

NAMES_FAULT = "Fault:"
NAMES_TEST = "Test:"


class NotAMutant(Exception):
    """The patch plants no bug; the message says why."""


@dataclass(frozen=True, slots=True)
class Patch:
    """One planted bug."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def story(self) -> str:
        """Return the description of the bug: the lines before the diff."""
        words = [line for line in self._head if not line.startswith((NAMES_FAULT, NAMES_TEST))]
        return " ".join(word for word in words if word) or "(no description)"

    @property
    def faults(self) -> list[str]:
        """Return the simulator's faults that the bug needs to show: `Fault: name`."""
        return self._named(NAMES_FAULT)

    @property
    def tests(self) -> list[str]:
        """Return the tests that catch the bug if the simulator cannot: `Test: path::name`."""
        return self._named(NAMES_TEST)

    def _named(self, what: str) -> list[str]:
        return [line.removeprefix(what).strip() for line in self._head if line.startswith(what)]

    @property
    def _head(self) -> list[str]:
        return [line.strip() for line in _until_diff(self.path.read_text().splitlines())]


def _until_diff(lines: list[str]) -> list[str]:
    for number, line in enumerate(lines):
        if line.startswith(("diff --git ", "--- ")):
            return lines[:number]
    return []


def known_patches() -> list[Patch]:
    """Every planted bug of the project, by name."""
    return [Patch(path) for path in sorted(PATCHES.glob("*.patch"))]


def copy_product(target: Path) -> None:
    """Everything that a simulation or a test runs, links between the rooms included."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, target / name, symlinks=True, ignore=ignored)
        else:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name)


def apply(patch: Patch, tree: Path) -> None:
    """Apply the patch to a copy made by `copy_product`; NotAMutant if that plants no bug."""
    before = _sources(tree)
    # Outside of any repository: git would silently leave out what its own index does not hold.
    environment = {**os.environ, "GIT_DIR": str(tree / "no-repository")}
    command = ["git", "apply", "--whitespace=nowarn", str(patch.path.resolve())]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise NotAMutant(f"does not apply: {done.stderr.strip() or done.stdout.strip()}")
    after = _sources(tree)
    paths = sorted(dict.fromkeys((*before, *after)))
    if all(_is_same(before.get(path), after.get(path), path) for path in paths):
        raise NotAMutant("changes nothing in the product's code")


def _sources(tree: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(tree): path.read_bytes()
        for room in ROOMS
        for path in (tree / room).rglob("*.py")
    }


def _is_same(before: bytes | None, after: bytes | None, path: Path) -> bool:
    """Return whether the code is the same apart from comments and layout."""
    if before == after or before is None or after is None:
        return before == after
    try:
        return ast.dump(_without_docstrings(before)) == ast.dump(_without_docstrings(after))
    except SyntaxError as error:
        raise NotAMutant(f"leaves {path} broken: {error.msg}") from None


def _without_docstrings(source: bytes) -> ast.Module:
    module = ast.parse(source)
    for node in ast.walk(module):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return module


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
