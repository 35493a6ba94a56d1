"""docs/trace.md: each of its commands is executed, in the order of the page."""

import json
import re
from pathlib import Path

import pytest

from ..support.cluster_page import ClusterPage, outside_of_blocks, page_of

PAGE = page_of("trace.md")


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    with ClusterPage(tmp_path) as page:
        shown = page.run_all(PAGE)
    waits, both, line, found, _, times = shown[-6:]
    assert "orders: waits, due" in waits or "orders-0@0, with timestamp" in waits
    assert "4bf92f3577b34da6a3ce929d0e0e4736" in waits
    assert "To          orders-0@0, with timestamp" in both
    assert "From        orders-later/0/0, due" in both
    assert re.search(r"Group shop +has committed past it: 1", both)
    told = json.loads(line)
    assert (told["source"], told["offset"], told["transaction"]) == ("orders-later/0/0", 0, "none")
    assert "orders-0@0" in found
    assert "1 found, 1 looked at" in found
    assert "Times of offsets 1 to " in times
    for what in (
        "appended, from",
        "committed",
        "fetched by client",
        "committed past by group shop",
    ):
        assert re.search(rf"[+-][\d,]+ ms  broker \d: {what}", times), what
