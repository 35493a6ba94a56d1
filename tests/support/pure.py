"""Finds the test modules that test only pure modules, which `make quick` runs.

`python -m tests.support.pure` prints their paths. A test module counts if all that it imports of
the product is pure (`[tool.minikafka] pure` in pyproject.toml), its helpers' imports included, and
if it awaits nothing and starts no process. So nobody has to keep a list of them.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import minikafka

from ..style.house_map import ROOT, is_pure

TESTS = ROOT / "tests"
AS_GOOD = ("errors.py", "config.py", "record_backend.py")
"""Ends of the names of modules that count as pure: errors, settings, and the choice of record
codec."""
WHOLE = ("golden", "protocol")
"""Folders all of whose test modules count."""
ROOMS = ("broker", "client", "connect", "controller", "storage")


def homes(node: ast.ImportFrom, path: Path) -> Iterator[Path]:
    """Yield the files that an import in `path` takes names from; none of other packages."""
    words = node.module.split(".") if node.module else []
    if not node.level and words[:1] != ["minikafka"]:
        return
    base = path.parents[node.level - 1] if node.level else ROOT
    folder = base.joinpath(*(words if node.level else words[1:]))
    for alias in node.names:
        public = minikafka._HOME_OF.get(alias.name) if folder == ROOT else None
        if public is not None:
            yield ROOT.joinpath(*public.split(".")).with_suffix(".py")
        elif folder.is_dir():
            yield folder / f"{alias.name}.py"
        else:
            yield folder.with_suffix(".py")


@cache
def is_quick(path: Path) -> bool:
    """Return whether a file of tests/ imports, directly or indirectly, only pure modules."""
    return needs_no_more(path, path.read_text())


def needs_no_more(path: Path, source: str) -> bool:
    """Return whether the source of a file at this path needs nothing but pure modules."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef):
            return False
        if isinstance(node, ast.Import) and any(each.name == "subprocess" for each in node.names):
            return False
        if isinstance(node, ast.ImportFrom):
            for home in homes(node, path):
                if TESTS in home.parents:
                    if not is_quick(home):
                        return False
                elif not home.name.endswith(AS_GOOD) and not is_pure(home):
                    return False
    return True


def modules() -> list[Path]:
    """Return the paths of the test modules that `make quick` runs, sorted."""
    found = [path for room in ROOMS for path in (TESTS / room).rglob("test_*.py")]
    quick = [path for path in found if is_quick(path)]
    return sorted([*quick, *(path for each in WHOLE for path in (TESTS / each).glob("test_*.py"))])


if __name__ == "__main__":
    for path in modules():
        print(path.relative_to(ROOT))
