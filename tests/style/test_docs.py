"""What the documents point at exists, and every folder and module has its line in the map."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .house_map import ROOMS, ROOT, first_line, folders, name_of

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(#[^)\s]*)?\)")
NO_MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:work|home|root|Users)/")
TEXTS = {".py", ".md", ".toml", ".txt", ".yml", ".yaml", ".cfg", ""}


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


FOLDER = re.compile(r"`([\w/]+)/`")
NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
DOTTED = re.compile(r"`(?:\w+/)*(\w+)\.(?!py`)(\w+)`")
CODE = re.compile(r"`([^`\n]+)`")
ALL_FOLDERS = [folder for room in ROOMS for folder in folders(ROOT / room)]
ALL_MODULES = [path for folder in ALL_FOLDERS for path in sorted(folder.glob("*.py"))]


RIDDLE = re.compile(
    r"(?:Wh(?:at|o|om|ose|ere|en|ich|ether|y)|How|Of|For|Those|Told|Until|Up to|Are|Is)\b"
)
"""How a line begins that leaves its reader to guess the noun."""


def misfits(line: str) -> Iterator[str]:
    """Why a first line of a docstring would be no good row of the map."""
    if not line:
        yield "is missing"
    elif len(line) > 100:
        yield f"has {len(line)} characters, 100 are allowed"
    elif not line.endswith("."):
        yield "does not end as a sentence"
    elif RIDDLE.match(line):
        yield "does not begin with what the module is or does"


def test_every_folder_and_module_says_in_a_line_what_it_is() -> None:
    found = {name_of(path): list(misfits(first_line(path))) for path in ALL_MODULES}
    assert {name: why for name, why in found.items() if why} == {}


def test_whatever_tests_share_says_in_a_line_what_it_is() -> None:
    shared = [path for top in ("tests", "bench") for path in (ROOT / top).rglob("*.py")]
    assert [
        name_of(path)
        for path in sorted(shared)
        if not path.name.startswith("test_")
        if not 0 < len(first_line(path)) <= 100
    ] == []


def test_a_line_that_does_not_fit_the_map_would_be_seen() -> None:
    lines = ["", "A line" + 100 * "x" + ".", "It goes on in", "What is told.", "It is short."]
    assert [len(list(misfits(line))) for line in lines] == [1, 1, 1, 1, 0]


def test_architecture_has_a_row_for_every_folder() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")]
    named = [name for row in rows for name in FOLDER.findall(row.split("|")[1])]
    of_rooms = [name for name in named if name.partition("/")[0] in ROOMS]
    assert sorted(of_rooms) == sorted(name_of(folder) for folder in ALL_FOLDERS)
    assert [name for name in named if not (ROOT / name).is_dir()] == []


def test_architecture_can_be_read_at_one_go() -> None:
    assert (ROOT / "ARCHITECTURE.md").stat().st_size <= 16 * 1024


def unknown_names(text: str, known: frozenset[str]) -> list[str]:
    """Code in the text with a word in it that is nowhere in the product."""
    code = CODE.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    return [each for each in code if not known.issuperset(re.findall(r"\w+", each))]


@pytest.fixture(scope="module")
def words_of_the_product() -> frozenset[str]:
    texts = [f"{name_of(path)} {path.read_text()}" for path in ALL_MODULES]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


def test_the_ways_go_by_names_that_are_there(words_of_the_product: frozenset[str]) -> None:
    text = (ROOT / "docs" / "ways.md").read_text()
    assert unknown_names(text, words_of_the_product | {"make", "map"}) == []


def test_a_name_that_is_gone_would_be_seen(words_of_the_product: frozenset[str]) -> None:
    text = "`Partition.on_metadata` -> `Partition.on_nothing_at_all`"
    assert unknown_names(text, words_of_the_product) == ["Partition.on_nothing_at_all"]


def members() -> Iterator[tuple[str, str]]:
    """What modules and classes of the product have: a name, and a name in it."""
    for path in ALL_MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield from ((node.name, name) for name in names_in(node))
            elif isinstance(node, ast.Module):
                yield from ((path.stem, each.name) for each in node.body if isinstance(each, NAMED))


def names_in(cls: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(cls):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Attribute):
            yield node.attr


def astray(text: str, known: frozenset[tuple[str, str]]) -> list[str]:
    """Names with a dot of which the first does not have the second."""
    pairs = [(match[1], match[2]) for match in DOTTED.finditer(text)]
    return [".".join(pair) for pair in pairs if pair not in known]


def test_the_ways_find_each_name_where_they_say() -> None:
    known = frozenset(members())
    assert astray((ROOT / "docs" / "ways.md").read_text(), known) == []
    assert astray("`partition/reading.fetch` -> `Partition.elect`", known) == ["Partition.elect"]


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
