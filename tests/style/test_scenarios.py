"""docs/scenarios.md: each number has a test, and each number in use has its row there.

`test_b_05_...` plays scenario B-05, in whichever folder it is.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from .house_map import ROOMS, ROOT

PAGE = ROOT / "docs" / "scenarios.md"
ROW = re.compile(r"^\| ([A-Z]-\d\d) \| (.+) \|$", re.MULTILINE)
TEST = re.compile(r"^ *(?:async )?def test_([a-z])_(\d\d)_\w+\(", re.MULTILINE)
MENTION = re.compile(r"(?<![\w-])([A-Z]-\d\d)(?![\w-])")
ELSEWHERE = re.compile(r"(?<![\w-])[A-N]-[A-N]\b|\breplication report\b")
"""How texts point into a document that is not in the repository."""


def numbers_of(text: str) -> list[str]:
    return [row.group(1) for row in ROW.finditer(text)]


def played(tests: Iterable[str]) -> dict[str, None]:
    """The scenarios that these texts of test modules play."""
    found = (f"{match[1].upper()}-{match[2]}" for text in tests for match in TEST.finditer(text))
    return dict.fromkeys(found)


def differences(page: str, tests: Iterable[str]) -> list[str]:
    """Numbers without a test, and tests whose number has no row."""
    rows, there = dict.fromkeys(numbers_of(page)), played(tests)
    return [number for number in rows if number not in there] + [
        number for number in there if number not in rows
    ]


def modules_of_tests() -> list[str]:
    return [path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))]


def test_every_number_has_a_test_and_every_test_its_number() -> None:
    assert differences(PAGE.read_text(), modules_of_tests()) == []


def test_the_numbers_are_in_order() -> None:
    numbers = numbers_of(PAGE.read_text())
    letters = dict.fromkeys(number[0] for number in numbers)
    in_order = [n for letter in letters for n in sorted(dict.fromkeys(numbers)) if n[0] == letter]
    assert numbers == in_order
    assert len(numbers) > 150


def test_a_number_on_one_side_only_would_be_seen() -> None:
    page = "| A-01 | It lives. |\n| A-02 | It dies. |\n| X-01 | It moves. |"
    tests = [
        "def test_a_01_it_lives() -> None:",
        "    async def test_b_03_nobody_knows() -> None:",
        "def test_r_04_nobody_cares() -> None:",
    ]
    assert differences(page, tests) == ["A-02", "X-01", "B-03", "R-04"]


def unexplained(text: str, numbers: Iterable[str]) -> list[str]:
    """Mentions of scenarios that the page does not have, and of documents that nobody has."""
    known = dict.fromkeys(numbers)
    return [number for number in MENTION.findall(text) if number not in known] + ELSEWHERE.findall(
        text
    )


def test_every_number_that_is_mentioned_is_explained() -> None:
    numbers = numbers_of(PAGE.read_text())
    tops = [ROOT / top for top in (*ROOMS, "tests", "docs", "bench")]
    texts = sorted(path for top in tops for path in top.rglob("*") if path.suffix in (".py", ".md"))
    guilty = {
        str(path.relative_to(ROOT)): found
        for path in [*sorted(ROOT.glob("*.md")), *texts]
        if path != Path(__file__).resolve()
        if (found := unexplained(path.read_text(), numbers))
    }
    assert guilty == {}


def test_a_number_that_nobody_explains_would_be_seen() -> None:
    text = "As in A-01, UTF-16 and A-02 (B-H of the replication report)."
    assert unexplained(text, ["A-01"]) == ["A-02", "B-H", "replication report"]
