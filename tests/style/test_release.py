"""What a release is made of agrees: the version, CHANGELOG.md, and the package's description."""

import re
import tomllib
from pathlib import Path

import pytest

from minikafka.runtime.version import VERSION

ROOT = Path(__file__).parents[2]
RELEASE = re.compile(r"## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d|unreleased)")
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def faults_of(changelog: str) -> list[str]:
    """What Keep a Changelog does not know, and releases out of order or without a link."""
    headings = [line for line in changelog.splitlines() if line.startswith("##")]
    faults = [
        line
        for line in headings
        if not RELEASE.fullmatch(line) and line.removeprefix("### ") not in KINDS
    ]
    releases = [match for line in headings if (match := RELEASE.fullmatch(line))]
    numbers = [tuple(map(int, match[1].split("."))) for match in releases]
    if numbers != sorted(set(numbers), reverse=True):
        faults.append("not newest first")
    faults += [f"{m[1]} is not the newest" for m in releases[1:] if m[2] == "unreleased"]
    return faults + [m[1] for m in releases if f"\n[{m[1]}]: " not in changelog]


def test_the_changelog_is_kept() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    assert faults_of(text) == []
    newest = RELEASE.search(text)
    assert newest is not None
    assert newest[1] == VERSION, "runtime/version.py and the newest heading of CHANGELOG.md"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("## 0.3.0", "## 0.3.0"),
        ("### Improved", "### Improved"),
        ("## [0.3.0] - 2027-01-01", "0.3.0"),
        ("## [0.0.1] - unreleased", "0.0.1 is not the newest"),
        ("## [9.0.0] - 2027-01-01", "not newest first"),
    ],
)
def test_what_does_not_belong_into_it_would_be_seen(line: str, fault: str) -> None:
    assert fault in faults_of((ROOT / "CHANGELOG.md").read_text() + f"\n{line}\n")


def test_the_package_says_where_it_is_from_and_what_it_runs_on() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= project["urls"].keys()
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Programming Language :: Python :: {oldest}" in project["classifiers"]
    assert project["classifiers"] == sorted(project["classifiers"])
