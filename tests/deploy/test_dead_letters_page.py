"""docs/dead-letters.md: each of its commands is executed, in the order of the page."""

import re
from pathlib import Path

import pytest

from ..support.cluster import wait_until
from ..support.cluster_page import WITHIN_S, ClusterPage, outside_of_blocks, page_of
from ..support.page_shell import sections

PAGE = page_of("dead-letters.md")
LIST = "minikafka dlq list dlq.billing --bootstrap-server localhost:9092\n"


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    assert outside_of_blocks(PAGE) == []


def rows(listed: str) -> list[list[str]]:
    return [line.split("\t") for line in listed.splitlines() if re.match(r"\d+:\d+\s", line)]


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    lists: list[list[list[str]]] = []
    shown: list[str] = []
    with ClusterPage(tmp_path) as page:

        def two_letters() -> str | None:
            listed = page.run(LIST.replace("\n", " || true\n"))
            return listed if len(rows(listed)) == 2 else None

        for block in (each for _, found in sections(PAGE) for each in found):
            if block == LIST:
                wait_until(two_letters, within_s=WITHIN_S)
            shown.append(page.run(block))
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
