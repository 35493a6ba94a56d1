"""The rooms and their links agree, and every folder with code is a package."""

import hashlib
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_ROOMS = {"tests", "bench"}
MADE_OR_CODE = {".py", ".pyc", ".so"}
ROOMS = sorted(p.parent.name for p in ROOT.glob("*/__init__.py") if p.parent.name not in NOT_ROOMS)


def test_every_room_is_linked() -> None:
    links = {
        p.name: p.readlink().as_posix()
        for p in (ROOT / "src/minikafka").iterdir()
        if p.is_symlink()
    }
    assert links == {room: f"../../{room}" for room in ROOMS}


def test_every_folder_with_code_is_a_package() -> None:
    missing = [
        str(folder.relative_to(ROOT))
        for room in [*ROOMS, *sorted(NOT_ROOMS)]
        for folder in sorted({f.parent for f in (ROOT / room).rglob("*.py")})
        if not (folder / "__init__.py").exists()
    ]
    assert missing == []


def test_the_c_of_the_codec_is_that_of_its_source() -> None:
    source = (ROOT / "protocol/records/_records.pyx").read_bytes()
    first = (ROOT / "protocol/records/_records.c").read_text().splitlines()[0]
    assert hashlib.sha256(source).hexdigest() in first, "run: make codec"


def test_a_wheel_contains_every_file_that_a_room_reads() -> None:
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = setuptools["package-data"]["minikafka"]
    paths = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*")) if path.is_file()]
    others = [each.relative_to(ROOT) for each in paths if each.suffix not in MADE_OR_CODE]
    left_out = [str(each) for each in others if not any(map(each.match, patterns))]
    # What the codec is made of is in the sdist, and compiled in the wheel.
    assert left_out == ["protocol/records/_records.c", "protocol/records/_records.pyx"]
    for pattern in set(patterns) - {"py.typed"}:
        assert any(each.match(pattern) for each in others), pattern
