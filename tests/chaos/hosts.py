"""Hosts of the drill: each has an address, and /etc, /opt and /var of its own.

A host is a network and a mount namespace, held open by a process that sleeps. From the desk it is
reached by `ssh` and `scp`, which here enter its namespaces, and its `systemctl` is systemctl.py.
The data of its daemons is on a disk of its own, which can be filled.
"""

import subprocess
from pathlib import Path
from typing import Final

from .network import Network, run

NETWORK: Final = "10.0.0."
DESK: Final = "desk"
DISK_BYTES: Final = 256 << 20
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BALLAST: Final = "/var/lib/minikafka/ballast"
SETTLE: Final = """\
set -eu
mount --bind {own}/etc /etc
mount --bind {own}/opt /opt
mount --bind {own}/var /var
mount -t tmpfs -o size={size},mode=0755 none /var/lib/minikafka
echo settled
exec sleep infinity
"""
SSH: Final = """\
#!/bin/sh
# ssh root@HOST COMMAND
host=${{1#root@}}
shift
exec nsenter --target "$(cat {lab}/$host/pid)" --mount --net -- \\
    env -i HOME={lab}/$host/files PATH={lab}/bin:{path} \\
    PIP_NO_INDEX=1 PIP_FIND_LINKS={house} PIP_DISABLE_PIP_VERSION_CHECK=1 \\
    PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore sh -c "cd && $*"
"""
SCP: Final = """\
#!/bin/sh
# scp -r FROM root@HOST:TO
host=${{3#root@}}
exec cp -r "$2" "{lab}/${{host%%:*}}/files/${{host#*:}}"
"""


class Hosts:
    """The hosts of one drill, by their addresses; `close` ends what they hold."""

    def __init__(self, lab: Path, house: Path, network: Network, count: int) -> None:
        """Make `count` hosts and a desk; hosts install packages from the folder `house`."""
        self._lab = lab
        self._network = network
        self._holders: list[subprocess.Popen[str]] = []
        self.names = [f"host-{number}" for number in range(1, count + 1)]
        self._make_programs(house)
        for name in self.names:
            network.add(name)
            self._settle(name)
        network.add(DESK)

    @property
    def bin(self) -> Path:
        """The folder of ssh, scp and systemctl, to come first on PATH."""
        return self._lab / "bin"

    def run(self, name: str, command: str) -> None:
        """Run a command on a host as its root."""
        address = self._network.address(name)
        words = [str(self.bin / "ssh"), f"root@{address}", command]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{name}: {command}: {done.stdout}{done.stderr}"

    def fill_disk(self, name: str, percent: int) -> None:
        """Fill so much of the disk's whole size with something else."""
        self.run(name, f"fallocate -l {DISK_BYTES * percent // 100} {BALLAST}")

    def logs(self) -> str:
        """The ends of the daemons' logs, by host."""
        found = []
        for file in sorted(self._lab.glob("*/var/lib/units/*.log")):
            found.append(f"== {file.relative_to(self._lab)}\n{file.read_text()[-3000:]}")
        return "\n".join(found)

    def close(self) -> None:
        """End the hosts."""
        for holder in self._holders:
            holder.kill()
            holder.communicate()

    def _make_programs(self, house: Path) -> None:
        self.bin.mkdir()
        own = {"lab": self._lab, "house": house, "path": PATH}
        systemctl = Path(__file__).with_name("systemctl.py").read_text()
        for name, text in {
            "ssh": SSH.format(**own),
            "scp": SCP.format(**own),
            "systemctl": f"#!/usr/bin/env python3\n{systemctl}",
        }.items():
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def _settle(self, name: str) -> None:
        own = self._lab / self._network.address(name)
        for folder in ("opt", "files", "var/lib/minikafka", "var/log", "var/tmp"):
            (own / folder).mkdir(parents=True)
        run("cp", "-a", "/etc", str(own / "etc"))
        (own / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
        script = SETTLE.format(own=own, size=DISK_BYTES)
        command = [*self._network.enter(name), "unshare", "--mount", "sh", "-c", script]
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._holders.append(holder)
        assert holder.stdout is not None
        # The line comes, or the script has failed and its output ends.
        assert holder.stdout.readline() == "settled\n", f"{name}: its mounts failed"
        (own / "pid").write_text(str(holder.pid))
