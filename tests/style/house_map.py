"""Prints the map of the house: each folder and module with the first line of its docstring.

    python -m tests.style.house_map [folder ...]

P marks the pure ones, which `[tool.minikafka] pure` in pyproject.toml lists. Without a folder all
rooms are shown; any folder of the repository may be named, those of tests/ too.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = (
    "runtime",
    "protocol",
    "storage",
    "security",
    "client",
    "controller",
    "broker",
    "connect",
    "web",
    "spark",
    "deploy",
)
WIDTH = 30
"""Of the column of names; a longer name pushes its line to the right."""


@cache
def pure_entries() -> tuple[str, ...]:
    """Folders, which stand for all that is in them, and single modules."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return tuple(project["tool"]["minikafka"]["pure"])


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_pure(path: Path) -> bool:
    name = name_of(path)
    return any(name == entry or name.startswith(f"{entry}/") for entry in pure_entries())


def modules(folder: Path) -> list[Path]:
    """Those below the folder, but for `__init__.py`."""
    return sorted(path for path in folder.rglob("*.py") if path.name != "__init__.py")


def pure_modules(*rooms: str) -> list[Path]:
    """The pure modules of these rooms; of all where none is named."""
    return [path for room in rooms or ROOMS for path in modules(ROOT / room) if is_pure(path)]


def first_line(path: Path) -> str:
    """Of the module's docstring; empty where it has none."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) if path.exists() else None
    return (docstring or "").partition("\n")[0]


def folders(top: Path) -> list[Path]:
    """The folder and those below it that have modules."""
    return sorted({top, *(path.parent for path in modules(top))})


def lines_of(folder: Path) -> Iterator[str]:
    """The folder by itself, without those below it."""
    yield f"{name_of(folder)}/".ljust(WIDTH + 4) + first_line(folder / "__init__.py")
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            mark = "P" if is_pure(path) else " "
            yield f"  {path.name.ljust(WIDTH)}{mark} {first_line(path)}".rstrip()


def main(wanted: list[str]) -> None:
    for name in wanted or ROOMS:
        for folder in folders(ROOT / name.rstrip("/")):
            print(*lines_of(folder), "", sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
