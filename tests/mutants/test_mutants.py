"""Patches stay true to the code, and what is no mutant is told apart from one that survives."""

import difflib
import json
import shutil
import sys
from pathlib import Path

import pytest

from ..simulation.coverage import FAULTS
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
    assert set(patch.faults) <= set(FAULTS)
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
    text = page([Verdict(patch, seed=4, finding="a | b", runs=5), Verdict(patch, runs=9)], 0, 9)
    assert "| bug | Never waits. | 4 | 5 | a \\| b |" in text
    assert "| bug | Never waits. | **not caught** | 9 |  |" in text


@pytest.mark.slow
def test_the_simulator_runs_on_a_copy(product: Path) -> None:
    run = hunting.simulate(product, 0, 1, 1)
    assert run == Run(1, None, ""), json.dumps(run.finding)
