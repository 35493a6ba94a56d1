"""Patches stay true to the code, and what is no mutant is told apart from one that survives."""

import difflib
import json
import shutil
import sys
from pathlib import Path

import pytest

from ..simulation.coverage import CELLS
from . import hunt as hunting
from .__main__ import main, page
from .hunt import Run, Verdict, hunt
from .tree import ROOT, NotAMutant, Patch, apply, copy_product, known_patches

LEADER = "broker/replica/leader.py"


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("product")
    copy_product(tree)
    return tree


@pytest.fixture
def room(product: Path, tmp_path: Path) -> Path:
    """A tree small enough to be spoilt by each test."""
    shutil.copytree(product / "broker/replica", tmp_path / "broker/replica")
    return tmp_path


def patch_of(place: Path, old: str, new: str, story: str = "") -> Patch:
    """A patch of one line of leader.py."""
    lines = (place / LEADER).read_text().splitlines(keepends=True)
    changed = [f"{new}\n" if line == f"{old}\n" else line for line in lines]
    path = place / "bug.patch"
    diff = difflib.unified_diff(lines, changed, f"a/{LEADER}", f"b/{LEADER}")
    path.write_text(f"{story}\n\n{''.join(diff)}")
    return Patch(path)


@pytest.mark.parametrize("patch", known_patches(), ids=lambda patch: patch.name)
def test_a_planted_bug_applies_and_is_described(patch: Patch, product: Path) -> None:
    assert patch.story != "(no description)"
    assert set(patch.faults) <= set(CELLS["fault"])
    for test in patch.tests:
        path, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text()
    touched = [
        line[6:] for line in patch.path.read_text().splitlines() if line.startswith("+++ b/")
    ]
    before = {name: (product / name).read_bytes() for name in touched}
    try:
        apply(patch, product)
    finally:
        for name, data in before.items():
            (product / name).write_bytes(data)


def test_a_patch_that_does_not_apply_is_no_mutant(room: Path) -> None:
    patch = patch_of(room, "REFUSED_PAUSE_MS = 500", "REFUSED_PAUSE_MS = 0")
    (room / LEADER).write_text("something = 'else'\n")
    with pytest.raises(NotAMutant, match="does not apply"):
        apply(patch, room)


@pytest.mark.parametrize("new", ["REFUSED_PAUSE_MS  =  500", "REFUSED_PAUSE_MS = 500  # half"])
def test_a_patch_that_changes_no_code_is_no_mutant(room: Path, new: str) -> None:
    with pytest.raises(NotAMutant, match="changes nothing"):
        apply(patch_of(room, "REFUSED_PAUSE_MS = 500", new), room)


def test_a_patch_that_leaves_no_python_is_no_mutant(room: Path) -> None:
    with pytest.raises(NotAMutant, match=r"leader\.py broken"):
        apply(patch_of(room, "REFUSED_PAUSE_MS = 500", "REFUSED_PAUSE_MS = ("), room)


def test_a_real_change_makes_a_mutant(room: Path) -> None:
    patch = patch_of(room, "REFUSED_PAUSE_MS = 500", "REFUSED_PAUSE_MS = 0", "Never waits.")
    apply(patch, room)
    assert "REFUSED_PAUSE_MS = 0\n" in (room / LEADER).read_text()
    assert patch.story == "Never waits."


@pytest.mark.parametrize("room_name", ["deploy", "spark"])
def test_every_room_is_the_products(product: Path, tmp_path: Path, room_name: str) -> None:
    module = next(iter(sorted((product / room_name).glob("*.py"))))
    (tmp_path / room_name).mkdir()
    shutil.copy(module, tmp_path / room_name / "module.py")
    text = module.read_text().splitlines(keepends=True)
    name = f"{room_name}/module.py"
    diff = difflib.unified_diff(text, [*text, "BUG = 1\n"], f"a/{name}", f"b/{name}")
    (tmp_path / "bug.patch").write_text("".join(diff))
    apply(Patch(tmp_path / "bug.patch"), tmp_path)
    assert (tmp_path / name).read_text().endswith("BUG = 1\n")


def test_a_patch_may_name_the_tests_that_catch_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "any.patch"
    path.write_text("A story.\nTest: a.py::passes\nTest: a.py::fails\n\n--- a/x\n+++ b/x\n")
    patch = Patch(path)
    assert patch.story == "A story."
    codes = {(ROOT, "a.py::passes"): 0, (ROOT, "a.py::fails"): 0}

    def run_test(tree: Path, name: str) -> tuple[int, str]:
        return codes.get((tree, name), int(name == "a.py::fails")), "assert 1 == 2"

    monkeypatch.setattr(hunting, "copy_product", lambda tree: None)
    monkeypatch.setattr(hunting, "apply", lambda patch, tree: None)
    monkeypatch.setattr(hunting, "run_test", run_test)
    verdict = hunt(patch, 0, 10, 1)
    assert (verdict.test, verdict.runs, verdict.finding) == ("a.py::fails", 2, "assert 1 == 2")
    assert verdict.is_caught
    codes[ROOT, "a.py::fails"] = 1
    assert not hunt(patch, 0, 10, 1).is_caught, "it fails anyway"
    monkeypatch.setattr(hunting, "run_test", lambda tree, name: (4, "no such test"))
    assert hunt(patch, 0, 10, 1).refused == "a.py::passes cannot be run: no such test"


def test_a_seed_that_fails_anyway_catches_nothing(
    product: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(hunting, "copy_product", lambda tree: None)
    monkeypatch.setattr(hunting, "apply", lambda patch, tree: None)
    failing = {ROOT: [3], None: [3, 7]}

    def simulate(tree: Path, seed: int, runs: int, jobs: int, fault: str | None = None) -> Run:
        for each in failing[tree if tree == ROOT else None]:
            if seed <= each < seed + runs:
                return Run(each - seed + 1, each, f"broken at {each}")
        return Run(runs, None, "")

    monkeypatch.setattr(hunting, "simulate", simulate)
    (tmp_path / "any.patch").write_text("A story.\n")
    verdict = hunt(Patch(tmp_path / "any.patch"), 0, 10, 1)
    assert (verdict.seed, verdict.runs, verdict.finding) == (7, 8, "broken at 7")
    failing[None] = [3]
    assert not hunt(Patch(tmp_path / "any.patch"), 0, 10, 1).is_caught


def test_seeds_that_draw_the_fault_a_bug_needs_are_tried_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "any.patch"
    path.write_text("A story\nof two lines.\nFault: pause\n\n--- a/x\n+++ b/x\n")
    patch = Patch(path)
    assert patch.story == "A story of two lines."
    assert patch.faults == ["pause"]
    asked: list[tuple[str | None, int]] = []

    def simulate(tree: Path, seed: int, runs: int, jobs: int, fault: str | None = None) -> Run:
        if tree == ROOT:
            return Run(1, None, "")
        asked.append((fault, runs))
        return Run(3, None, "") if fault else Run(2, 1, "broken")

    monkeypatch.setattr(hunting, "copy_product", lambda tree: None)
    monkeypatch.setattr(hunting, "apply", lambda patch, tree: None)
    monkeypatch.setattr(hunting, "simulate", simulate)
    verdict = hunt(patch, 0, 10, 1)
    assert asked == [("pause", 10), (None, 10)]
    assert (verdict.seed, verdict.runs) == (1, 5)


def test_exit_codes(
    room: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    patch = patch_of(room, "REFUSED_PAUSE_MS = 500", "REFUSED_PAUSE_MS = 0")
    verdicts = {
        0: Verdict(patch, seed=4, finding="invariant 1", runs=5),
        1: Verdict(patch, runs=500),
        2: Verdict(patch, refused="changes nothing in the product's code"),
    }
    monkeypatch.setattr(sys, "argv", ["mutants", "--patch", str(patch.path)])
    for code, verdict in verdicts.items():
        monkeypatch.setattr("tests.mutants.__main__.hunt", lambda *_, v=verdict: v)
        assert main() == code
    told = capsys.readouterr().out
    assert "seed 4 (5 tried): invariant 1" in told
    assert "NOT CAUGHT in 500 seeds" in told
    assert "REFUSED: changes nothing" in told


def test_the_page_has_a_row_for_each(room: Path) -> None:
    patch = patch_of(room, "REFUSED_PAUSE_MS = 500", "REFUSED_PAUSE_MS = 0", "Never waits.")
    verdicts = [
        Verdict(patch, seed=4, finding="a | b\n  twice\n\n", runs=5),
        Verdict(patch, test="a.py::b", finding="c", runs=1),
        Verdict(patch, runs=9),
    ]
    text = page(verdicts, 0, 9)
    assert "| bug | Never waits. | a.py::b | 1 | c |" in text
    assert "| bug | Never waits. | 4 | 5 | a \\| b twice |" in text
    assert "| bug | Never waits. | **not caught** | 9 |  |" in text


@pytest.mark.slow
def test_the_simulator_runs_on_a_copy(product: Path) -> None:
    run = hunting.simulate(product, 0, 1, 1)
    assert run == Run(1, None, ""), json.dumps(run.finding)
