"""docs/routes.md: each of its commands is executed, in the order of the page."""

import re
from pathlib import Path

import pytest

from ..support.cluster import wait_until
from ..support.page_shell import PageShell, sections
from .test_delay_page import started

PAGE = (Path(__file__).parents[2] / "docs" / "routes.md").read_text()
WITHIN_S = 60.0


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    outside = re.sub(r"(?m)^```sh\n[\s\S]*?^```$", "", PAGE)
    assert re.findall(r"(?m)^minikafka.*$", outside) == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    port = "9092"
    shown: list[str] = []
    with PageShell(tmp_path) as shell:
        for block in (each for _, found in sections(PAGE) for each in found):
            # All daemons take ports that are free.
            here = block.replace("--port 9092", "--port 0").replace("9092", port)
            shown.append(shell.run(here, WITHIN_S))
            if "minikafka up" in block:
                log = tmp_path / "up.log"
                port = str(wait_until(lambda log=log: started(log), within_s=WITHIN_S))  # type: ignore[misc]
    copies, stats = shown[2:]
    for line in ("orders: tea", "orders: coffee", "europe: tea", "rest: hello"):
        assert copies.count(line) == 1, copies
    assert "europe: coffee" not in copies
    assert "inbox" in stats
