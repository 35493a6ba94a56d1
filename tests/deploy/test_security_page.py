"""docs/security.md: each of its commands is executed, in the order in which the page has them."""

import re
from pathlib import Path

import pytest

from ..support.cluster import free_ports, wait_until
from ..support.page_shell import PageShell, commands, sections

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
ELSEWHERE = {"A running cluster becomes secure": "test_security_move.py"}
"""Chapters with a cluster of their own, and the test that executes them."""
PORTS = ("19090", "9092")
"""The page's ports of the controller and of the broker."""
STARTED = re.compile(r"> (\S+\.log) 2>&1 &$", re.MULTILINE)
WITHIN_S = 120.0


def blocks() -> list[str]:
    found = sections(PAGE)
    return [block for heading, each in found if heading not in ELSEWHERE for block in each]


def is_ready(log: Path) -> bool:
    return log.exists() and " ready {" in log.read_text()


def test_whoever_copies_a_command_finds_it_in_a_block_that_is_executed() -> None:
    outside = re.sub(r"(?m)^```sh\n[\s\S]*?^```$", "", PAGE)
    assert re.findall(r"(?m)^(?:minikafka|openssl)\S* .*$", outside) == []
    headings = [heading for heading, _ in sections(PAGE)]
    assert [chapter for chapter in ELSEWHERE if chapter not in headings] == []


@pytest.mark.slow
def test_every_command_works(tmp_path: Path) -> None:
    output: dict[str, str] = {}
    free = [str(port) for port in free_ports(len(PORTS))]
    with PageShell(tmp_path) as shell:
        for block in blocks():
            here = block
            for port, own in zip(PORTS, free, strict=True):
                here = re.sub(rf"\b{port}\b", own, here)
            output[block] = shell.run(here, WITHIN_S)
            for name in STARTED.findall(block):
                log = tmp_path / "cluster" / name
                wait_until(lambda log=log: is_ready(log), within_s=WITHIN_S)  # type: ignore[misc]
    refused = [text for block, text in output.items() if "|| echo refused" in block]
    assert len(refused) == 3
    assert all(text.endswith("refused\n") for text in refused)
    records = next(text for block, text in output.items() if "--max-messages 9" in block)
    assert sorted(re.findall(r"(?m)^\d$", records)) == [str(n) for n in range(1, 10)]
    assert "CLUSTER_AUTHORIZATION_FAILED" in records
    assert sum(len(commands(block)) for block in output) > 50
