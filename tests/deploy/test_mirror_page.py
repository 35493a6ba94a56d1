"""docs/mirror.md: each of its commands is executed, in the order of the page."""

import re
from pathlib import Path

import pytest

from ..support.cluster import wait_until
from ..support.cluster_page import outside_of_blocks, page_of
from ..support.page_shell import PageShell, sections

PAGE = page_of("mirror.md")
PORTS = {"9092": "a.log", "9192": "b.log"}
"""The port of each cluster on the page, and the file that tells the real one."""


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


class TwoClusters(PageShell):
    """A shell for the commands of the page; its clusters take ports that are free."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports = dict.fromkeys(PORTS, "0")
        super().__init__(directory)

    def run(self, block: str, within_s: float = 60.0) -> str:
        """Run a block; wait until what it has started is ready."""
        for shown, real in self._ports.items():
            block = block.replace(shown, real)
        said = super().run(block, within_s)
        if "minikafka up" in block:
            pattern = r"ready bootstrap\.servers=[^:]+:(\d+)"
            self._ports = {shown: self._said(name, pattern) for shown, name in PORTS.items()}
        if "minikafka mirror mm2.properties >" in block:
            self._said("mirror.log", r"(ready \{)")
        return said

    def _said(self, name: str, pattern: str) -> str:
        """Wait until a file has such a text; return its group."""
        file = self._directory / name

        def look() -> re.Match[str] | None:
            return re.search(pattern, file.read_text()) if file.exists() else None

        return wait_until(look, within_s=60.0)[1]


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    with TwoClusters(tmp_path) as page:
        shown = [page.run(block) for _, blocks in sections(PAGE) for block in blocks]
    read, mirrored, places, moved = (shown[at].strip() for at in (1, 3, 4, 5))
    assert read.endswith("40")
    assert mirrored.endswith("100")
    row = places.splitlines()[1].split()
    assert row[:7] == ["A->B", "billing", "orders", "0", "40", "100", "60"]
    translated, end, lag = map(int, row[7:])
    assert 0 <= translated <= 40
    assert (end, lag) == (100, 100 - translated)
    assert moved.endswith(f"\n{translated + 60}")
    assert (tmp_path / "moved").read_text().splitlines()[0] == str(translated + 1)
