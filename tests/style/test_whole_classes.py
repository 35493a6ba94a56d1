"""A class is as long as what its reader has to know: its own lines and those of all its bases.

So the budget of a class is not met by slicing it into heirs: a part with a state and a name of its
own is cut out instead. Classes that are still over the budget are listed with their lines.
"""

import ast
from pathlib import Path
from typing import NamedTuple

from .test_budgets import CLASS_LINES, MODULES, name_of

OVER: dict[str, int] = {}
"""Lines of each class over the budget. They may only fall; none is ever added."""

RE_EXPORTS_MAX = 5
"""How often a name may be imported from where it was imported itself."""


class Class(NamedTuple):
    """A class by its module's path and its name."""

    module: str
    name: str


class House:
    """All classes, their lines, and which of them each inherits from."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.lines: dict[Class, int] = {}
        self._bases: dict[Class, list[ast.expr]] = {}
        self._names: dict[str, dict[str, Class]] = {}
        for path, source in sources.items():
            self._read(path, source)

    def _read(self, path: str, source: str) -> None:
        module = path.removesuffix(".py").removesuffix("/__init__")
        names = self._names[module] = {}
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ImportFrom) and node.level:
                package = Path(path).parents[node.level - 1].parts
                origin = "/".join((*package, *(node.module.split(".") if node.module else ())))
                for alias in node.names:
                    names[alias.asname or alias.name] = Class(origin, alias.name)
            elif isinstance(node, ast.ClassDef):
                found = names[node.name] = Class(module, node.name)
                self.lines[found] = (node.end_lineno or 0) - node.lineno + 1
                self._bases[found] = node.bases

    def length(self, cls: Class) -> int:
        return sum(self.lines[each] for each in self._family(cls))

    def over(self) -> dict[str, int]:
        """The classes over the budget with their lines."""
        lengths = {f"{cls.module}.{cls.name}": self.length(cls) for cls in self.lines}
        return {name: length for name, length in sorted(lengths.items()) if length > CLASS_LINES}

    def _family(self, cls: Class) -> dict[Class, None]:
        """The class and its bases, each once however many ways lead to it."""
        found = {cls: None}
        for base in self._bases[cls]:
            parent = self._resolve(cls.module, base)
            if parent is not None:
                found |= self._family(parent)
        return found

    def _resolve(self, module: str, base: ast.expr) -> Class | None:
        """The class that is meant; None for one of another package."""
        if isinstance(base, ast.Subscript):
            base = base.value
        head, _, attribute = ast.unparse(base).partition(".")
        found = self._names[module].get(head)
        if found is not None and attribute:
            found = Class("/".join(found), attribute)
        for _ in range(RE_EXPORTS_MAX):
            if found is None or found in self.lines:
                break
            found = self._names.get(found.module, {}).get(found.name)
        return found if found in self.lines else None


def complaints(over: dict[str, int], listed: dict[str, int]) -> list[str]:
    grown = [
        f"{name}: {length} lines with its bases, {listed.get(name, CLASS_LINES)} are allowed"
        for name, length in over.items()
        if length > listed.get(name, CLASS_LINES)
    ]
    return grown + [f"{name}: take it off the list" for name in listed if name not in over]


def test_no_class_is_over_its_budget_by_inheritance() -> None:
    house = House({name_of(path): path.read_text() for path in MODULES})
    assert complaints(house.over(), OVER) == []


def test_a_base_of_every_spelling_is_found() -> None:
    house = House(
        {
            "storage/base.py": "class Base:\n    x = 1\n",
            "storage/face.py": "from .base import Base as Base\n",
            "broker/left.py": "from ..storage import base\nclass Left(base.Base):\n    y = 1\n",
            "broker/right.py": "from ..storage.face import Base as B\nclass Right(B):\n    z = 1\n",
            "broker/net/both.py": "from ..left import Left\nfrom ..right import Right\n"
            "class Both(Left, Right[int], Protocol): pass\n",
        }
    )
    lengths = {cls.name: house.length(cls) for cls in house.lines}
    assert lengths == {"Base": 2, "Left": 4, "Right": 4, "Both": 7}


def test_a_class_over_its_budget_by_inheritance_is_found() -> None:
    half = "    x = 1\n" * (CLASS_LINES // 2)
    house = House(
        {
            "broker/part.py": f"class Part:\n{half}",
            "broker/whole.py": f"from .part import Part\nclass Whole(Part):\n{half}",
        }
    )
    over = house.over()
    assert over == {"broker/whole.Whole": CLASS_LINES + 2}
    assert complaints(over, over) == []
    assert len(complaints(over, {})) == 1
    assert len(complaints(over, {"broker/whole.Whole": CLASS_LINES + 1})) == 1
    assert complaints({}, over) == ["broker/whole.Whole: take it off the list"]
