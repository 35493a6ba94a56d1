"""No effect is forgotten: every `match` over effects ends in `case _: assert_never(...)`.

With that, mypy refuses an effect that a state machine may return and nobody carries out. Effects
are the members of unions whose names end in Effect or Step.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    "deploy",
)
SUFFIXES = ("Effect", "Step")
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
}


def unions(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """`AnEffect = One | Another` at the top of a module: its name and its members."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name, value = node.targets[0].id, node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            name, value = node.target.id, node.value
        else:
            continue
        if name.endswith(SUFFIXES):
            yield name, [each.id for each in ast.walk(value) if isinstance(each, ast.Name)]


UNIONS = dict(union for tree in TREES.values() for union in unions(tree))
EFFECTS = {member for members in UNIONS.values() for member in members}


def matched(match: ast.Match) -> set[str]:
    """The classes that the cases name, without the module they come from."""
    patterns = (each for case in match.cases for each in ast.walk(case.pattern))
    return {
        ast.unparse(each.cls).rpartition(".")[2]
        for each in patterns
        if isinstance(each, ast.MatchClass)
    }


def is_closed(match: ast.Match) -> bool:
    never = f"case _:\n    assert_never({ast.unparse(match.subject)})"
    return ast.unparse(match.cases[-1]) == never


def findings(tree: ast.AST, effects: set[str]) -> list[int]:
    """Lines of a `match` over effects that may drop one in silence."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Match) and matched(node) & effects and not is_closed(node)
    ]


def test_every_match_over_effects_is_closed() -> None:
    found = {name: findings(tree, EFFECTS) for name, tree in TREES.items()}
    assert {name: each for name, each in found.items() if each} == {}


def test_the_effects_are_found() -> None:
    assert {"LeaderEffect", "FollowerEffect", "QuorumEffect", "Step"} <= UNIONS.keys()
    closed = [
        node.lineno
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Match) and matched(node) & EFFECTS
    ]
    assert len(closed) >= len(UNIONS)


MATCH = """
match effect:
    case Append(records):
        write(records)
    case e.Truncate() | e.Failed():
        pass
"""


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("", [2]),
        ("    case _:\n        pass\n", [2]),
        ("    case _:\n        hand_on(effect)\n", [2]),
        ("    case _:\n        assert_never(another)\n", [2]),
        ("    case _:\n        assert_never(effect)\n", []),
    ],
)
def test_a_match_that_may_forget_an_effect_is_found(end: str, found: list[int]) -> None:
    assert findings(ast.parse(MATCH + end), {"Truncate"}) == found
    assert findings(ast.parse(MATCH + end), {"Elected"}) == []
