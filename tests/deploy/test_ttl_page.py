"""docs/ttl.md: each of its commands is executed, in the order of the page."""

from pathlib import Path

import pytest

from ..support.cluster_page import ClusterPage, outside_of_blocks, page_of

PAGE = page_of("ttl.md")


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    with ClusterPage(tmp_path) as page:
        shown = page.run_all(PAGE)
    first, second, codes, everything = shown[1:]
    assert "tea 3.10" in first
    assert "tea 3.20" in second
    assert "tea 3.10" not in second
    assert "welcome" in codes
    assert "4711" not in codes
    assert "tea 3.10" in everything
    assert "tea 3.20" in everything
