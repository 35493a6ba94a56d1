"""CONTRIBUTING.md is followed: what it names is there, and its example is built by its steps."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
COPIED = (
    *(
        "runtime",
        "protocol",
        "storage",
        "security",
        "client",
        "connect",
        "controller",
        "broker",
        "deploy",
        "spark",
        "src",
        "web",
    ),
    *("docs", "tests", "pyproject.toml"),
)
STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`|"
    r"In `(?P<path>[^`]+)`, (?P<side>above|below) `(?P<anchor>[^`]+)`):\n\n"
    r"```(?:python|text)\n(?P<code>.*?)```$",
    re.MULTILINE | re.DOTALL,
)
COMMAND = re.compile(r"^```sh\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w.]+/[\w./]*|[\w/]+\.(?:py|md|toml))`")
TARGET = re.compile(r"(?:`|^    )make ([a-z]+)", re.MULTILINE)
PYTHON = ".venv/bin/python"
ROW = "| `minikafka.notice` | empty | string | A line about this broker"


@dataclass(frozen=True, slots=True)
class Step:
    """Code that the page puts into a file: a new one, or beside a line that is there once."""

    path: str
    code: str
    side: str | None = None
    anchor: str | None = None

    def take(self, tree: Path) -> None:
        target = tree / self.path
        if self.anchor is None:
            assert not target.exists(), f"{self.path} is there already"
            target.write_text(self.code)
            return
        lines = target.read_text().splitlines(keepends=True)
        found = [index for index, line in enumerate(lines) if line.strip() == self.anchor]
        assert len(found) == 1, f"{self.path} has `{self.anchor}` {len(found)} times"
        line = lines[found[0]]
        indent = line[: len(line) - len(line.lstrip())]
        code = "".join(indent + each for each in self.code.splitlines(keepends=True))
        at = found[0] + (self.side == "below")
        target.write_text("".join([*lines[:at], code, *lines[at:]]))


STEPS = [
    Step(step["new"] or step["path"], step["code"], step["side"], step["anchor"])
    for step in STEP.finditer(PAGE)
]


def run(tree: Path, *command: str) -> str:
    """Run it in the copy, with the copy's code; what it printed. It must succeed."""
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The repository, without what git ignores and what this does not need."""
    leave = shutil.ignore_patterns("__pycache__", "*.egg-info", "_records.c", "golden", "patches")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, symlinks=True, ignore=leave)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_key_and_an_api_are_added_as_the_page_says(tree: Path) -> None:
    for step in STEPS:
        step.take(tree)
    for command in COMMAND.findall(PAGE):
        run(tree, "sh", "-c", command.replace(PYTHON, shlex.quote(sys.executable)))
    assert ROW in (tree / "docs" / "config.md").read_text()
    written = [str(tree / step.path) for step in STEPS]
    ruff = str(Path(sys.executable).parent / "ruff")
    run(tree, ruff, "format", "--quiet", *written)
    run(tree, ruff, "check", "--quiet", *written)
    run(
        tree,
        *(sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"),
        "tests/broker/test_describe_notice.py",
        "tests/broker/test_edge_apis.py::test_api_versions_tells_what_a_kafka_broker_of_today_tells",
        "tests/deploy/test_config_docs.py",
        "tests/style/test_docs.py::test_every_folder_and_module_says_in_a_line_what_it_is",
        "tests/style/test_budgets.py",
    )
    shutil.rmtree(tree)


def test_the_example_is_what_the_page_is_about() -> None:
    """Each block of code is a step, so that none is shown and not followed."""
    assert len(STEPS) == len(re.findall("^```(?:python|text)$", PAGE, re.MULTILINE)) == 8
    assert len(COMMAND.findall(PAGE)) == 1


def test_a_step_that_has_lost_its_place_would_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("class A:\n    x = 1\n")
    Step("a.py", "y = 2\n", "below", "x = 1").take(tmp_path)
    assert (tmp_path / "a.py").read_text() == "class A:\n    x = 1\n    y = 2\n"
    with pytest.raises(AssertionError, match="0 times"):
        Step("a.py", "z = 3\n", "above", "x = 3").take(tmp_path)
    with pytest.raises(AssertionError, match="there already"):
        Step("a.py", "z = 3\n").take(tmp_path)


def test_every_path_and_every_target_that_the_page_names_is_there() -> None:
    made = {step.path for step in STEPS if step.anchor is None}
    made |= {".venv/bin/pre-commit", "dist", "build/api"}
    text = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    missing = [
        name
        for name in NAMED.findall(text)
        if name not in made and not name.startswith("dist/") and not (ROOT / name).exists()
    ]
    assert missing == []
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(TARGET.findall(PAGE)) - targets == set()


def test_git_runs_what_people_run() -> None:
    hooks = re.findall(r"entry: (.+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert [hook.split(" --")[0] for hook in hooks] == [
        ".venv/bin/ruff format",
        ".venv/bin/ruff check",
        "make quick",
    ]
