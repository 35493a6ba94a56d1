"""What the documents point at exists, and the map in ARCHITECTURE.md is the whole house."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")
ROOMS = ("runtime", "protocol", "storage", "client", "controller", "broker", "spark", "deploy")
NO_MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|home|root|Users)/")
TEXTS = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ""}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def broken_links(document: Path, text: str) -> list[str]:
    found = [match.group(1) for match in LINK.finditer(text)]
    return [
        link
        for link in found
        if "://" not in link and not (document.parent / link).resolve().exists()
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_relative_link_resolves(document: Path) -> None:
    assert broken_links(document, document.read_text()) == []


def test_a_broken_link_would_be_seen() -> None:
    text = "[a](nowhere.md), [b](README.md#start), [c](https://example.org/x)"
    assert broken_links(ROOT / "ARCHITECTURE.md", text) == ["nowhere.md"]


def unlisted(index: str) -> list[str]:
    """Pages, programs and decisions without a line of their own, and headings told wrongly."""
    lines = dict(re.findall(r"^- \[[^\]]*\]\(([^)]+)\): (.+)$", index, re.MULTILINE))
    folder = ROOT / "docs"
    files = [*folder.rglob("*.md"), *folder.rglob("*.py")]
    there = {str(path.relative_to(folder)): path for path in files if path.name != "README.md"}
    faults = sorted(there.keys() ^ lines.keys())
    for name in sorted(there.keys() & lines.keys()):
        heading = there[name].read_text().partition("\n")[0].removeprefix("# ")
        if name.startswith("decisions/") and not lines[name].startswith(heading):
            faults.append(f"{name}: {heading}")
    return faults


def test_the_index_has_a_line_for_every_page_and_every_decision() -> None:
    assert unlisted((ROOT / "docs" / "README.md").read_text()) == []


def test_a_page_without_a_line_would_be_seen() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    index = index.replace("- [config.md]", "[config.md]").replace(": Commit groups", ": Groups")
    name = "decisions/0032-commit-groups.md"
    assert unlisted(index) == ["config.md", f"{name}: Commit groups"]


def modules_in_map(text: str) -> Iterator[str]:
    """Names below `### room/`; an indented one is in the folder that the line above names."""
    room = folder = ""
    for line in text.partition("\n## File map\n")[2].splitlines():
        if heading := re.fullmatch(r"### (\w+)/.*", line):
            room, folder = heading.group(1), ""
        elif room in ROOMS and line and not line.startswith("```"):
            first = line.split(maxsplit=1)[0]
            if line.startswith(" "):
                yield from (f"{room}/{folder}{name}" for name in line.split())
            elif first.endswith("/"):
                folder = first
            else:
                yield f"{room}/{first}"


def test_the_map_names_every_module_once_and_nothing_else() -> None:
    named = sorted(modules_in_map((ROOT / "ARCHITECTURE.md").read_text()))
    there = sorted(
        name_of(path)
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if path.name != "__init__.py"
    )
    assert named == there


def test_no_file_names_a_path_of_one_machine() -> None:
    tops = (*ROOMS, "src/minikafka/__init__.py", "tests", "bench", "docs", ".ci")
    files = [path for top in tops for path in (ROOT / top).rglob("*")]
    files += [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    guilty = [
        name_of(path)
        for path in sorted(files)
        if path.is_file() and path.suffix in TEXTS and path != Path(__file__).resolve()
        if "__pycache__" not in path.parts
        if NO_MACHINE_PATHS.search(path.read_text(errors="replace"))
    ]
    assert guilty == []
