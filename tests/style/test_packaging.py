"""The rooms and their links agree, and every folder with code is a package."""

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOT_ROOMS = {"tests", "bench"}
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
