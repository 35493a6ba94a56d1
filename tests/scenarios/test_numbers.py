"""Every scenario that we promise to test is a function found by its number.

`test_b_05_...` plays scenario B-05. Numbers of whole groups, and single ones of others.
"""

import re
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
GROUPS = {
    "a": 22,
    "b": 29,
    "c": 20,
    "d": 15,
    "e": 14,
    "f": 15,
    "g": 10,
    "h": 18,
    "i": 12,
    "j": 8,
    "k": 6,
}
"""How many scenarios a group has, numbered from 1."""
SINGLE = ("l_01", "n_01", "n_03", "n_04", "n_06")
TEST = re.compile(r"^(?:async )?def test_([a-z]_\d\d)_\w+\(", re.MULTILINE)


def promised() -> Iterator[str]:
    for group, count in GROUPS.items():
        for number in range(1, count + 1):
            yield f"{group}_{number:02}"
    yield from SINGLE


def played() -> dict[str, int]:
    """How many tests play each scenario."""
    found: dict[str, int] = {}
    for module in sorted(HERE.glob("test_*.py")):
        for name in TEST.findall(module.read_text()):
            found[name] = found.get(name, 0) + 1
    return found


def test_every_promised_scenario_is_played() -> None:
    there = played()
    missing = [name.upper().replace("_", "-") for name in promised() if name not in there]
    assert not missing, f"no test plays {', '.join(missing)}"


def test_no_scenario_has_a_number_of_its_own_making() -> None:
    known = dict.fromkeys(promised())
    assert [name for name in played() if name not in known] == []
