"""docs/guarantees.md: every sentence is held by a test, and every test that is named exists."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUARANTEES = ROOT / "docs" / "guarantees.md"
ROW = re.compile(r"\| (\d+) \| (.+) \| (.+) \|")
NAME = re.compile(r"`(test_\w+)`")
TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)


def all_tests() -> dict[str, None]:
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return {name: None for path in files for name in TEST.findall(path.read_text())}


def unheld(text: str) -> list[str]:
    """Sentences of the tables without a test, and tests without a function."""
    there = all_tests()
    rows = [ROW.fullmatch(line) for line in text.splitlines()]
    promises = [row for row in rows if row is not None]
    without = [row[1] for row in promises if not NAME.findall(row[3])]
    return without + [name for name in NAME.findall(text) if name not in there]


def test_every_sentence_is_held_by_tests_that_exist() -> None:
    assert unheld(GUARANTEES.read_text()) == []


def test_the_sentences_are_numbered_in_order() -> None:
    numbers = [
        int(row[1])
        for line in GUARANTEES.read_text().splitlines()
        if (row := ROW.fullmatch(line)) is not None
    ]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 20


def test_an_empty_promise_would_be_seen() -> None:
    rows = ["| 1 | Really. | `test_that_nobody_wrote` |", "| 2 | No. | x |"]
    assert unheld("\n".join(rows)) == ["2", "test_that_nobody_wrote"]


def test_every_test_that_the_page_of_security_names_exists() -> None:
    there = all_tests()
    named = NAME.findall((ROOT / "docs" / "security.md").read_text())
    assert named
    assert [name for name in named if name not in there] == []
