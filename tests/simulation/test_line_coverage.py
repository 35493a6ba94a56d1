"""Which lines of decisions ran: the modules come from pyproject.toml, the lines from functions."""

from pathlib import Path

from . import scenario
from .line_coverage import (
    ModuleLines,
    collected,
    deciding_modules,
    lines_of_functions,
    noted,
    ranges,
    share,
    table,
)


def test_what_decides_is_what_is_listed_as_pure() -> None:
    modules = deciding_modules()
    assert {"broker/replica/leader.py", "controller/quorum/node.py", "storage/retention.py"} <= {
        *modules
    }
    assert "broker/replication/fetcher.py" not in modules
    assert len(modules) == len(dict.fromkeys(modules))


def test_lines_that_ran_are_noted_over_several_seeds(tmp_path: Path) -> None:
    for seed in (3, 4):
        with noted(str(tmp_path), seed):
            scenario.run(seed, 0.5)
    modules = {each.name: each for each in collected(str(tmp_path))}
    voters = modules["controller/quorum/voters.py"]
    assert voters.count > len(voters.missed)
    retention = modules["storage/retention.py"]
    assert retention.missed, "half a second is too short for it"
    assert 0 < share([*modules.values()]) < 1


def test_the_table_names_ranges_of_lines() -> None:
    module = ModuleLines("broker/x.py", 10, (3, 4, 5, 8))
    assert list(ranges(module.missed)) == ["3-5", "8"]
    first, line, last = table([module])
    assert first == "lines of what decides:"
    assert line.split() == ["60.0%", "broker/x.py", "3-5,", "8"]
    assert last.split() == ["60.0%", "of", "10", "lines"]


def test_what_only_a_bug_reaches_does_not_count(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text(
        "def f(a):\n"
        "    if a:\n"
        "        raise InvariantViolation(\n"
        "            'never'\n"
        "        )\n"
        "    raise ValueError\n"
        "def __repr__(self):\n"
        "    return ''\n"
    )
    assert lines_of_functions(str(source)) == {2, 6}
