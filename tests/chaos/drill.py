"""An operator's first day and a disaster drill, on hosts in namespaces that nothing leaves.

    python -m tests.chaos.drill            about a minute and a half; needs root

Executes those chapters of docs/operations.md as they stand: the wheel is built and installed on the
hosts, the generated units run there by their own commands, and something writes all the time. Then
twelve faults are planted, and `minikafka doctor` must name each. Runs itself anew inside `unshare`:
network, mounts and processes are the run's own, and all end with it, at the latest after
`ENDS_WITHIN_S`.
"""

import faulthandler
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Final

import click

from minikafka import Consumer, TopicPartition

from ..support.page_shell import PageShell, sections
from . import needs
from .hosts import DESK, NETWORK, Hosts
from .network import Network, run

ROOT: Final = Path(__file__).parents[2]
CHAPTERS: Final = ("An operator's first day", "A disaster drill")
INSIDE: Final = "MINIKAFKA_DRILL_INSIDE"
ALONE: Final = ("unshare", "-n", "-m", "-p", "--fork", "--kill-child", "--mount-proc")
CANNOT_RUN: Final = 77
"""The exit code if the machine lacks something needed; standard output says what."""
ENDS_WITHIN_S: Final = 600.0
HOUSE_WITHIN_S: Final = 200.0
BLOCK_WITHIN_S: Final = 180.0
HOSTS: Final = 4
FAULTS: Final = (
    "unreachable-bootstrap",
    "not-a-broker",
    "unreachable-advertised",
    "unreachable-controller",
    "disk-full",
    "left-throttle",
    "one-replica",
    "no-spare-replica",
    "fenced-broker",
    "voter-behind",
    "under-replicated",
    "unsafe-restart",
)

PLANTED: Final = """\
minikafka topics --create --topic single --partitions 1 --replication-factor 1
minikafka topics --create --topic strict --partitions 1 --replication-factor 2 \\
    --config min.insync.replicas=2
minikafka configs --alter --topic orders --add-config leader.replication.throttled.replicas=0:1
"""
"""The faults that are planted from the desk."""


def cannot_run() -> list[str]:
    """Return what the machine lacks."""
    lacking = needs.missing(("useradd", "fallocate", "curl", "tar"))
    ours = "import sys, ensurepip, venv; print(*sys.version_info[:2])"
    found = subprocess.run(["/usr/bin/env", "python3", "-c", ours], capture_output=True, text=True)
    if found.stdout.split() != sysconfig.get_python_version().split("."):
        lacking.append(f"a python3 of the system that is {sysconfig.get_python_version()}")
    return lacking


def fill_house(house: Path) -> list[str]:
    """Build the wheel and collect it and all it needs in a folder; return what is lacking."""
    source = house.with_name("source")
    rooms = [link.resolve() for link in (ROOT / "src" / "minikafka").iterdir() if link.is_symlink()]
    unwanted = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
    for path in (*rooms, ROOT / "src"):
        shutil.copytree(path, source / path.name, symlinks=True, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet"]
    command += ["--wheel-dir", str(house), str(source)]
    # The codec runs for a minute: its compiler need not take long to make it fast.
    environment = {**os.environ, "CFLAGS": "-O0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=HOUSE_WITHIN_S, env=environment
        )
    except subprocess.TimeoutExpired:
        return [f"packages to install from within {HOUSE_WITHIN_S:g} s"]
    shutil.rmtree(source)
    return [f"packages to install from: {done.stderr}"] if done.returncode else []


class Drill:
    """The hosts, the desk's shell, and what is checked between the page's chapters."""

    def __init__(self, lab: Path, house: Path) -> None:
        self._network = Network(NETWORK)
        self.hosts = Hosts(lab, house, self._network, HOSTS)
        self._work = lab / "work"
        self._work.mkdir()
        path = f"{self.hosts.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._desk = PageShell(
            self._work, environment={"PATH": path}, prefix=self._network.enter(DESK)
        )
        self.bootstrap = [f"{self._network.address(name)}:9092" for name in self.hosts.names[:3]]
        self.controllers = ",".join(each.replace(":9092", ":9093") for each in self.bootstrap)

    def close(self) -> None:
        """End everything."""
        self._desk.close()
        self.hosts.close()

    def follow_page(self) -> None:
        """Execute the chapters, and say how long each part took."""
        page = (ROOT / "docs" / "operations.md").read_text()
        for chapter in page.split("\n## "):
            if not chapter.startswith(CHAPTERS):
                continue
            for heading, blocks in sections(f"## {chapter}"):
                began = time.monotonic()
                for block in blocks:
                    self._follow(heading, block)
                click.echo(f"{heading:<32} {time.monotonic() - began:6.1f} s")

    def _follow(self, heading: str, block: str) -> None:
        if heading == "A disk dies":
            # There it finds what was done; elsewhere there is nothing to find.
            block = block.replace("minikafka doctor", "! minikafka doctor > found.txt")
        self._desk.run(block, BLOCK_WITHIN_S)
        if "found.txt" in block:
            found = (self._work / "found.txt").read_text()
            assert "fenced-broker" in found, found
            assert "under-replicated" in found, found

    def writer(self) -> str:
        """The end of what the writer said."""
        said = [self._work / name for name in ("written.json", "writer.log")]
        return "\n".join(file.read_text()[-3000:] for file in said if file.exists())

    def check_writes(self) -> int:
        """Compare what the writer was told with what is read; return the number of records."""
        lines = [json.loads(line) for line in (self._work / "written.json").open()]
        written = {
            (line["partition"], line["offset"]): line["value"].encode()
            for line in lines
            if line["name"] == "producer_send_success"
        }
        assert not [line for line in lines if line["name"] == "producer_send_error"]
        places = [TopicPartition("orders", index) for index in range(6)]
        with Consumer(self.bootstrap, auto_offset_reset="earliest") as consumer:
            ends = consumer.end_offsets(places)
            consumer.assign(places)
            deadline = time.monotonic() + 60
            while any(consumer.position(place) < ends[place] for place in places):
                assert time.monotonic() < deadline, "reading does not come to the end"
                for record in consumer.poll(timeout_ms=500):
                    expected = written.pop((record.partition, record.offset), record.value)
                    assert record.value == expected, record
        assert not written, f"{len(written)} acknowledged records are gone"
        return len(lines)

    def check_faults(self) -> None:
        """Plant faults; the doctor must name each."""
        self._desk.run(PLANTED, BLOCK_WITHIN_S)
        self.hosts.fill_disk("host-3", 88)
        # The second host serves, but nothing that the desk sends arrives there.
        self._network.cut(DESK, "host-2")
        nobody = f"{self._network.address(DESK)}:9092"
        first, *_, third = self.bootstrap
        found = self._examine(first, third, nobody, self.controllers.partition(",")[0])
        self._network.heal()
        for unit in ("minikafka-broker@2", "minikafka-controller@102"):
            self.hosts.run("host-2", f"systemctl stop {unit}")
        deadline = time.monotonic() + BLOCK_WITHIN_S
        while missing := [fault for fault in FAULTS if fault not in found]:
            # A voter that is away falls behind only after some seconds.
            assert time.monotonic() < deadline, f"no {missing} among {sorted(found)}"
            found |= self._examine(first)

    def _examine(self, *bootstrap: str) -> set[str]:
        """Return the kinds of what the doctor finds, asked at the desk."""
        command = f"minikafka doctor --json --timeout 2000 --controllers {self.controllers}"
        command += " --command-config tools.properties"
        servers = ",".join(bootstrap)
        told = self._desk.run(
            f"{command} --bootstrap-server {servers} > found.json || test $? = 1\ncat found.json",
            BLOCK_WITHIN_S,
        )
        return {each["kind"] for each in json.loads(told)["kinds"]}


def run_inside(lab: Path) -> bool:
    """Run the drill; return whether all went as it should."""
    faulthandler.dump_traceback_later(ENDS_WITHIN_S, exit=True)
    disk = lab / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "mode=0755", "none", str(disk))
    drill = Drill(disk, lab / "house")
    try:
        drill.follow_page()
        click.echo(f"{drill.check_writes()} records written, no write failed, none is lost")
        drill.check_faults()
        click.echo(f"the doctor names {len(FAULTS)} faults")
    except (AssertionError, OSError, subprocess.SubprocessError) as error:
        click.echo(f"{drill.hosts.logs()}\n{drill.writer()}\nFAILED: {error}")
        return False
    finally:
        drill.close()
        run("umount", "-l", str(disk))
        shutil.rmtree(lab)
    return True


@click.command(help=__doc__)
def main() -> None:
    """Run the drill inside namespaces of its own."""
    if INSIDE in os.environ:
        sys.exit(0 if run_inside(Path(os.environ[INSIDE])) else 1)
    lab = Path(tempfile.mkdtemp(prefix="minikafka-drill-"))
    lab.chmod(0o755)
    lacking = cannot_run() or fill_house(lab / "house")
    if lacking:
        shutil.rmtree(lab)
        click.echo(f"cannot run: not on this machine: {', '.join(lacking)}")
        sys.exit(CANNOT_RUN)
    command = [*ALONE, sys.executable, "-m", "tests.chaos.drill"]
    # In place of this process: whoever kills it kills all there is.
    os.execvpe(command[0], command, {**os.environ, INSIDE: str(lab)})


if __name__ == "__main__":
    main()
