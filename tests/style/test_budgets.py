"""Sizes are budgets, not advice: it is the tail that rots. See ARCHITECTURE.md."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = (
    "runtime",
    "protocol",
    "storage",
    "security",
    "client",
    "connect",
    "controller",
    "broker",
    "spark",
    "web",
    "deploy",
    "src",
)
BANNED_SUFFIXES = ("Manager", "Helper", "Util", "Utils", "Handler")
MODULE_LINES, CLASS_LINES, FUNCTION_LINES, PARAMETERS = 600, 300, 70, 5

MODULES = sorted(
    path
    for room in ROOMS
    for path in (ROOT / room).rglob("*.py")
    if not any(part.is_symlink() for part in path.parents)
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def is_cli_command(node: Function) -> bool:
    """A click command's parameters are its flags: Kafka's tools have many."""
    return any(
        "option" in ast.unparse(d) or "command" in ast.unparse(d) for d in node.decorator_list
    )


def parameter_count(node: Function) -> int:
    args = node.args
    positional = [a.arg for a in (*args.posonlyargs, *args.args) if a.arg not in ("self", "cls")]
    required_keywords = [d for d in args.kw_defaults if d is None]
    return len(positional) + len(required_keywords)


def over_budget(source: str) -> list[str]:
    tree = ast.parse(source)
    over: list[str] = []
    if not ast.get_docstring(tree):
        over.append("module: it does not say what it is for")
    if (lines := source.count("\n")) > MODULE_LINES:
        over.append(f"module: {lines} lines")
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            if length > CLASS_LINES:
                over.append(f"class {node.name}: {length} lines")
            if node.name.endswith(BANNED_SUFFIXES):
                over.append(f"class {node.name}: the suffix hides a noun not yet found")
    for function in functions(tree):
        length = (function.end_lineno or 0) - function.lineno + 1
        if length > FUNCTION_LINES:
            over.append(f"{function.name}: {length} lines")
        if not is_cli_command(function) and parameter_count(function) > PARAMETERS:
            over.append(f"{function.name}: {parameter_count(function)} parameters")
    return over


def test_every_module_keeps_its_budgets_and_says_what_it_is_for() -> None:
    found = {name_of(path): over_budget(path.read_text()) for path in MODULES}
    assert {name: each for name, each in found.items() if each} == {}


def test_what_is_over_a_budget_is_found() -> None:
    body = "    pass\n" * FUNCTION_LINES
    assert over_budget(f"def long():\n{body}") == [
        "module: it does not say what it is for",
        f"long: {FUNCTION_LINES + 1} lines",
    ]
    wide = '"""Wide."""\n\n\nclass LogManager:\n    def wide(self, a, b, c, d, *, e, f): ...\n'
    assert over_budget(wide) == [
        "class LogManager: the suffix hides a noun not yet found",
        "wide: 6 parameters",
    ]
    long = '"""Long."""\n' * (MODULE_LINES + 1)
    assert over_budget(long) == [f"module: {MODULE_LINES + 1} lines"]
