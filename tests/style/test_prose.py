"""A docstring states its subject: it neither opens like a riddle nor asks. See CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.style.test_budgets import MODULES, name_of

OPENING = re.compile(r"(What|Who|Where|Of|Those|Told|For)\b")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def text_of(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value.strip() if isinstance(value, str) else None
    return None


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text: of modules, classes and functions, and those below constants and fields."""
    for node in ast.walk(tree):
        if not isinstance(node, Documented):
            continue
        previous: ast.stmt | None = None
        for statement in node.body:
            text = text_of(statement)
            if text and (previous is None or isinstance(previous, ast.Assign | ast.AnnAssign)):
                yield statement.lineno, text
            previous = statement


def riddles(source: str) -> list[str]:
    """The docstrings that open with a pronoun or preposition, or whose first paragraph asks."""
    return [
        f"{line}: {first}"
        for line, text in docstrings(ast.parse(source))
        for first in [" ".join(text.partition("\n\n")[0].split())]
        if OPENING.match(first) or first.endswith("?")
    ]


def test_no_docstring_is_a_riddle() -> None:
    found = {name_of(path): riddles(path.read_text()) for path in MODULES}
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""Where a batch goes."""', 1),
        ('def f():\n    """What was said of it."""', 1),
        ('def f():\n    """Told that it leads, it assigns."""', 1),
        ('class A:\n    """A batch."""\n\n    size = 0\n    """Of the batch, in bytes."""', 1),
        ('class A:\n    def is_open(self):\n        """Is it open?"""', 1),
        ('def f():\n    """Is it open? Raises nothing.\n\n    May it be asked?"""', 0),
        ('def f():\n    """True if it is open.\n\n    Where it is not, close it."""', 0),
        ('def f():\n    """Whether it is open."""\n    g()\n    "What is no docstring"', 0),
    ],
)
def test_a_riddle_is_found(source: str, count: int) -> None:
    assert len(riddles(source)) == count
