"""What a process cost: CPU of all its threads, memory, from /proc. And what this machine is."""

import os
import platform
import subprocess
from pathlib import Path
from typing import NamedTuple


def cpu_seconds(pid: int) -> float:
    """Sum the CPU time of every thread of a process, nanosecond resolution."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total / 1e9


def pss_mib(pid: int) -> float:
    """Read a process's proportional share of memory, in MiB: shared pages count by their share."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no Pss line")


def descendants(pid: int) -> list[int]:
    """List the processes below a process that live now."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (stat := _stat(int(entry.name))):
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def tree_cpu_seconds(pid: int) -> float:
    """Sum the CPU time of a process and all below it, ended threads and children among them.

    The kernel counts it in hundredths of a second.
    """
    ticks = 0
    for each in (pid, *descendants(pid)):
        if stat := _stat(each):
            ticks += sum(map(int, stat[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """Read the fields of /proc/PID/stat behind the name, the state first; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


class Machine(NamedTuple):
    """Where a run was made."""

    cores: int
    memory_gib: int
    cpu: str
    kernel: str
    python: str
    commit: str


def machine() -> Machine:
    """Describe this machine and the commit that is measured."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return Machine(
        cores=os.cpu_count() or 1,
        memory_gib=memory,
        cpu=models[0] if models else platform.machine(),
        kernel=platform.release(),
        python=platform.python_version(),
        commit=commit or "unknown",
    )
