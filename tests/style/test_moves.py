"""Every metric of docs/metrics.md has a test in which it moves by what it stands for.

Such tests say so with `@pytest.mark.moves(...)`, and are held to it while they run
(tests/support/moves.py). The page is made from a scrape, which another test compares with it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

from ..deploy.test_metric_names import served
from ..support.moves import unmoved
from ..support.scrape import Scrape, readings

TESTS = Path(__file__).parents[1]

STANDS_STILL = {
    "kafka_coordinator_group_groupmetadatamanager_numgroupsdead": "a group that is deleted is gone"
    " at once; dashboards add the states up",
}
"""Always the same, and why it is served."""


def claims(text: str) -> Iterator[tuple[str, str]]:
    """Each function of a module that is marked, with a metric that its mark names."""
    for node in ast.walk(ast.parse(text)):
        for mark in getattr(node, "decorator_list", ()):
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.moves":
                for name in mark.args:
                    yield getattr(node, "name", ""), ast.literal_eval(name)


def claimed() -> dict[str, list[str]]:
    """The tests that move each metric."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text()
        if "mark.moves(" in text:
            for test, name in claims(text):
                found.setdefault(name, []).append(f"{path.relative_to(TESTS)}::{test}")
    return found


def test_every_metric_has_a_test_that_moves_it() -> None:
    known, moved = served(), claimed()
    assert len(known) > 100
    assert [name for name in known if name not in moved and name not in STANDS_STILL] == []
    assert [name for name in STANDS_STILL if name not in known or name in moved] == []


def test_every_mark_is_on_a_test_and_names_metrics_that_are_served() -> None:
    known, moved = served(), claimed()
    assert sorted(set(moved) - set(known)) == []
    tests = [test for each in moved.values() for test in each]
    assert [test for test in tests if not test.partition("::")[2].startswith("test_")] == []


def test_a_mark_that_moves_nothing_would_be_seen() -> None:
    text = '@pytest.mark.moves("a", "b")\ndef test_it() -> None: ...\ndef test_no() -> None: ...\n'
    assert list(claims(text)) == [("test_it", "a"), ("test_it", "b")]

    def page(count: int, size: int, version: str) -> str:
        return (
            f'# TYPE a gauge\na{{of="x"}} {size}\n# TYPE b counter\nb_total {count}\n'
            f'# TYPE c gauge\nc{{version="{version}"}} 1\n'
            f'# TYPE d gauge\nd{{version="{version}"}} 2\n# EOF\n'
        )

    with readings() as found:
        Scrape.of(page(1, 5, "1"))
        Scrape.of(page(2, 5, "2"))
    assert unmoved(["a", "b_total", "c", "d", "e"], found) == ["a", "d", "e"]
