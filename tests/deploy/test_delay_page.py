"""docs/delay.md: each of its commands is executed, in the order in which the page has them."""

import re
from pathlib import Path

import pytest

from ..support.cluster import wait_until
from ..support.page_shell import PageShell, sections

PAGE = (Path(__file__).parents[2] / "docs" / "delay.md").read_text()
WITHIN_S = 60.0


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    outside = re.sub(r"(?m)^```sh\n[\s\S]*?^```$", "", PAGE)
    assert re.findall(r"(?m)^minikafka.*$", outside) == []


def started(log: Path) -> int | None:
    """Return the port of the first broker once the cluster is up."""
    said = log.read_text() if log.exists() else ""
    found = re.search(r"ready bootstrap\.servers=[^:]+:(\d+)", said)
    return None if found is None else int(found[1])


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
    lines = [line for text in shown for line in text.splitlines() if "minikafka-source" in line]
    assert [line.rpartition("\t")[2] for line in lines] == ["at once", "first", "second"]
    everything = "\n".join(shown)
    assert "refused" in everything
    assert "is cancelled.\n" in everything
    assert "INVALID_RECORD_STATE" in everything
    assert "too late" in everything
    stats = everything[everything.index("Partition\tPending") :].splitlines()[1].split()
    assert (stats[0], stats[-1]) == ("0", "1")
