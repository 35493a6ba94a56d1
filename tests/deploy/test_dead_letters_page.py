"""docs/dead-letters.md: each of its commands is executed, in the order of the page."""

import re
from pathlib import Path

import pytest

from ..support.cluster import wait_until
from ..support.page_shell import PageShell, sections

PAGE = (Path(__file__).parents[2] / "docs" / "dead-letters.md").read_text()
WITHIN_S = 60.0
LIST = "minikafka dlq list dlq.billing --bootstrap-server localhost:9092\n"


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    outside = re.sub(r"(?m)^```sh\n[\s\S]*?^```$", "", PAGE)
    assert re.findall(r"(?m)^minikafka.*$", outside) == []


def started(log: Path) -> int | None:
    """Return the port of the first broker once the cluster is up."""
    said = log.read_text() if log.exists() else ""
    found = re.search(r"ready bootstrap\.servers=[^:]+:(\d+)", said)
    return None if found is None else int(found[1])


def rows(listed: str) -> list[list[str]]:
    return [line.split("\t") for line in listed.splitlines() if re.match(r"\d+:\d+\s", line)]


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    port = "9092"
    lists: list[list[list[str]]] = []
    shown: list[str] = []
    with PageShell(tmp_path) as shell:

        def run(block: str) -> str:
            # All daemons take ports that are free.
            return shell.run(
                block.replace("--port 9092", "--port 0").replace("9092", port), WITHIN_S
            )

        def two_letters() -> str | None:
            listed = run(LIST.replace("\n", " || true\n"))
            return listed if len(rows(listed)) == 2 else None

        for block in (each for _, found in sections(PAGE) for each in found):
            if block == LIST:
                wait_until(two_letters, within_s=WITHIN_S)
            shown.append(run(block))
            if "minikafka up" in block:
                log = tmp_path / "up.log"
                port = str(wait_until(lambda log=log: started(log), within_s=WITHIN_S))  # type: ignore[misc]
            if block.endswith(LIST):
                lists.append(rows(shown[-1]))
        billed = tmp_path / "bill.log"
        wait_until(lambda: "billed salt 1" in billed.read_text(), within_s=WITHIN_S)
        lines = billed.read_text().splitlines()
    said = sorted(line for line in lines if line.startswith("billed"))
    assert said == ["billed bread 3", "billed coffee 9", "billed salt 1", "billed tea 12"]
    two, none = lists
    assert sorted(row[4].strip() for row in two) == ["KeyError", "ValueError"]
    assert none == []
    everything = "\n".join(shown)
    assert "1 letter requeued." in everything
    assert "1 letter discarded." in everything
    assert re.search(r"__dlq\.errors\.delivery\.count +3\n", everything)
