"""docs/routes.md: each of its commands is executed, in the order of the page."""

from pathlib import Path

import pytest

from ..support.cluster_page import ClusterPage, outside_of_blocks, page_of

PAGE = page_of("routes.md")


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    with ClusterPage(tmp_path) as page:
        shown = page.run_all(PAGE)
    copies, stats = shown[2:]
    for line in ("orders: tea", "orders: coffee", "europe: tea", "rest: hello"):
        assert copies.count(line) == 1, copies
    assert "europe: coffee" not in copies
    assert "inbox" in stats
