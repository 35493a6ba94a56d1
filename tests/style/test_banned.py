"""What product code may not touch: the world but through Runtime, and orders that vary by run.

Ruff bans the modules people reach for first (TID251 in pyproject.toml); this test covers the side
doors: calls that need no import, modules that do the same, and iteration without an order.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("protocol", "storage", "security", "controller", "broker", "client")
EXEMPT = ("client/cli/", "client/sync_")
MODULES = {
    *("time", "random", "secrets", "uuid", "os", "pathlib", "socket", "threading", "_thread"),
    *("subprocess", "multiprocessing", "concurrent", "signal", "select", "selectors", "mmap"),
    *("fcntl", "io", "tempfile", "shutil", "glob", "datetime", "queue", "ctypes", "posix"),
}
CALLS = {"open", "id", "hash", "input", "print", "breakpoint", "eval"}
METHODS = {"to_thread", "run_in_executor", "add_reader", "add_writer", "add_signal_handler"}
LEGAL = {
    "broker/net/connection.py": [
        "except Exception"
    ],  # a connection's loop; the other is in runtime/
    "broker/api/worked.py": ["except Exception"],  # of one request; its connection closes
    "client/consumer/retry_worker.py": ["except Exception"],  # the handler of a user, likewise
    "client/consumer/user_functions.py": ["except Exception"],  # a deserializer may raise anything
    "client/net/login_tokens.py": ["except Exception"],  # a function for tokens, likewise
    "protocol/audit.py": ["import datetime"],  # from milliseconds to text; it asks no clock
    "protocol/shared_methods.py": ["hash()"],  # a __hash__, nothing is ordered by it
}

FILES = sorted(
    path
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if not path.relative_to(ROOT).as_posix().startswith(EXEMPT)
)


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


def keeps_order(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("list", "tuple", "iter")


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level:
        return [node.module or ""]
    return []


def findings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        for module in imported(node):
            if module.partition(".")[0] in MODULES:
                yield f"import {module}"
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", None)
            method = getattr(node.func, "attr", None)
            if name in CALLS:
                yield f"{name}()"
            if method in METHODS:
                yield f".{method}()"
            if keeps_order(node) and any(is_set(each) for each in node.args):
                yield "a set put in no order"
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and is_set(node.iter):
            yield "iteration over a set"
        if isinstance(node, ast.ExceptHandler) and "Exception" in _caught(node):
            yield "except Exception"


def _caught(handler: ast.ExceptHandler) -> list[str]:
    if handler.type is None:
        return ["Exception"]
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return [each.id for each in types if isinstance(each, ast.Name)]


def test_product_code_takes_the_world_from_runtime() -> None:
    found = {name_of(path): list(findings(ast.parse(path.read_text()))) for path in FILES}
    assert {name: each for name, each in found.items() if each} == LEGAL


@pytest.mark.parametrize(
    ("source", "finding"),
    [
        ("import os.path", "import os.path"),
        ("from datetime import datetime", "import datetime"),
        ("open('x')", "open()"),
        ("await_ = loop.run_in_executor(None, f)", ".run_in_executor()"),
        ("for x in {1, 2}: pass", "iteration over a set"),
        ("[x for x in set(y)]", "iteration over a set"),
        ("list({1, 2})", "a set put in no order"),
        ("try: pass\nexcept Exception: pass", "except Exception"),
        ("try: pass\nexcept: pass", "except Exception"),
        ("sorted(x, key=lambda each: id(each))", "id()"),
    ],
)
def test_what_is_banned_is_found(source: str, finding: str) -> None:
    assert finding in list(findings(ast.parse(source)))
