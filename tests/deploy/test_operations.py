"""docs/operations.md: each of its commands is executed, in the order in which the page has them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikafka import Admin, Producer

from ..chaos.drill import CHAPTERS as ON_HOSTS
from ..support.cluster import free_ports, wait_until
from ..support.page_shell import PageShell, commands, sections

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
PORTS = "1909"
"""The page's ports begin with it: the controllers' is 19090, the brokers' follow."""
STARTED = re.compile(r">>? (\S+\.log) 2>&1 &$", re.MULTILINE)
NOT_HERE = {
    "minikafka host ": "runs until it is stopped: test_host.py does that",
    "docker compose ": "needs a container engine",
    "helm install ": "needs Kubernetes",
}
"""The beginnings of commands that this test leaves out, and why."""
WITHIN_S = 120.0


def blocks() -> Iterator[str]:
    """The blocks of the chapters that one machine can execute."""
    for chapter in PAGE.split("\n## ")[1:]:
        if not chapter.startswith(ON_HOSTS):
            for _, found in sections(f"## {chapter}"):
                yield from found


def adapted(block: str, ports: str) -> str:
    """The block with ports that are free here, without what is not executed here.

    The doctor may find something, and a comparison of replicas is stopped after its first result.
    """
    for command in commands(block):
        if command.startswith(tuple(NOT_HERE)):
            block = block.replace(f"{command}\n", "")
    block = re.sub(r"^minikafka doctor .*$", r"\g<0> || test $? = 1", block, flags=re.M)
    watch = r"^(minikafka replica-verification .*)$"
    block = re.sub(
        watch, r"{ timeout --foreground -s INT 3 \1 || test $? = 124; }", block, flags=re.M
    )
    return block.replace(PORTS, ports)


def starts(log: Path) -> int:
    return log.read_text().count(" ready {") if log.exists() else 0


def follow(shell: PageShell, directory: Path, block: str) -> str:
    """Run a block; where it starts daemons, wait until they are ready."""
    before = {log: starts(log) for log in (directory / name for name in STARTED.findall(block))}
    output = shell.run(block, WITHIN_S)
    for log, count in before.items():
        wait_until(lambda log=log, count=count: starts(log) > count, within_s=WITHIN_S)  # type: ignore[misc]
    return output


def free_decade() -> str:
    """Return the first digits of ten ports that are free here."""
    found = free_ports(200)
    wanted = range(5)
    return next(
        str(port // 10) for port in found if all(port // 10 * 10 + n in found for n in wanted)
    )


def test_what_is_left_out_is_on_the_page() -> None:
    shown = [command for block in blocks() for command in commands(block)]
    for beginning in NOT_HERE:
        assert sum(command.startswith(beginning) for command in shown) == 1, beginning


def test_the_chapters_that_the_drill_executes_have_commands() -> None:
    for chapter in ON_HOSTS:
        text = PAGE.partition(f"\n## {chapter}\n")[2].partition("\n## ")[0]
        assert sum(len(found) for _, found in sections(f"## {chapter}\n{text}")) > 5, chapter


@pytest.mark.slow
def test_every_command_for_one_machine_works(tmp_path: Path) -> None:
    ports = free_decade()
    followed = []
    with PageShell(tmp_path) as shell:
        for block in blocks():
            output = follow(shell, tmp_path / "cluster", adapted(block, ports))
            followed += commands(block)
            if "--max-messages 9" in block:
                assert [*map(str, range(1, 10))] == sorted(re.findall(r"(?m)^\d$", output))
                fill(f"127.0.0.1:{ports}1")
            if "--verify" in block:
                wait_until_settled(f"127.0.0.1:{ports}1")
    assert len(followed) > 60


def fill(server: str) -> None:
    """Give each partition a record, so that there is a log to print."""
    with Producer(server) as producer:
        for partition in range(3):
            producer.send("orders", b"one", partition=partition).result()


def wait_until_settled(server: str) -> None:
    """Wait until no replica moves any more: the next plan begins where all of them are."""
    with Admin(server) as admin:
        wait_until(lambda: not admin.list_partition_reassignments(), within_s=WITHIN_S)
