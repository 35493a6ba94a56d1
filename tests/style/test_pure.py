"""Modules that pyproject.toml calls pure are: no loop, no log, no Runtime, no file, no await.

`[tool.minikafka] pure` names folders, with all that is in them, and single modules. What else may
not be touched, clocks and dice among it, is banned for every module by `test_banned`.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from .house_map import ROOT, name_of, pure_entries

BANNED = ("asyncio", "logging", "runtime.runtime", "runtime.fs")
ASYNC = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)


ENTRIES = pure_entries()


def modules(entry: str) -> list[Path]:
    path = ROOT / entry
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


PURE = sorted({path for entry in ENTRIES for path in modules(entry)})


def imported(node: ast.AST, package: tuple[str, ...]) -> list[str]:
    """The modules that may be meant, from the room on where they are ours."""
    if isinstance(node, ast.Import):
        return [alias.name.removeprefix("minikafka.") for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = package[: len(package) - node.level + 1] if node.level else ()
    source = ".".join((*base, *([node.module] if node.module else [])))
    names = [source, *(f"{source}.{alias.name}" for alias in node.names)]
    return [name.removeprefix("minikafka.") for name in names]


def findings(source: str, name: str) -> Iterator[str]:
    package = Path(name).parent.parts
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        for module in imported(node, package):
            if any(module == each or module.startswith(f"{each}.") for each in BANNED):
                yield f"line {line}: import of {module}"
        if isinstance(node, ASYNC):
            yield f"line {line}: {type(node).__name__}"


def test_a_pure_module_is_pure() -> None:
    found = {name_of(path): list(findings(path.read_text(), name_of(path))) for path in PURE}
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("import asyncio", "line 1: import of asyncio"),
        ("from asyncio import Event", "line 1: import of asyncio"),
        ("import logging.handlers", "line 1: import of logging.handlers"),
        ("def f():\n    import logging", "line 2: import of logging"),
        ("from ...runtime.runtime import Runtime", "line 1: import of runtime.runtime"),
        ("from ...runtime import runtime", "line 1: import of runtime.runtime"),
        ("from minikafka.runtime.fs import Fs", "line 1: import of runtime.fs"),
        ("async def f(): pass", "line 1: AsyncFunctionDef"),
        ("async def f():\n    await g()", "line 2: Await"),
    ],
)
def test_what_is_not_pure_is_found(source: str, finding: str) -> None:
    assert finding in list(findings(source, "broker/replica/leader.py"))


def test_what_is_pure_is_named_once_and_is_there() -> None:
    assert sorted(set(ENTRIES)) == [*ENTRIES]
    assert all((ROOT / entry).exists() for entry in ENTRIES)
    folders = [entry for entry in ENTRIES if (ROOT / entry).is_dir()]
    assert not [each for each in ENTRIES for folder in folders if each.startswith(f"{folder}/")]
