"""docs/delay.md: each of its commands is executed, in the order of the page."""

from pathlib import Path

import pytest

from ..support.cluster_page import ClusterPage, outside_of_blocks, page_of

PAGE = page_of("delay.md")


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    with ClusterPage(tmp_path) as page:
        shown = page.run_all(PAGE)
    lines = [line for text in shown for line in text.splitlines() if "minikafka-source" in line]
    assert [line.rpartition("\t")[2] for line in lines] == ["at once", "first", "second"]
    everything = "\n".join(shown)
    assert "refused" in everything
    assert "is cancelled.\n" in everything
    assert "INVALID_RECORD_STATE" in everything
    assert "too late" in everything
    stats = everything[everything.index("Partition\tPending") :].splitlines()[1].split()
    assert (stats[0], stats[-1]) == ("0", "1")
