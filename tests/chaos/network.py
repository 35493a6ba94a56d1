"""A network of namespaces: one host each, a veth pair to a bridge, and nothing beyond.

Lives in a network and mount namespace of the run's own, so nothing can leave and nothing remains.
Every host has a fixed entry for the hardware address of every other. To cut one direction, an
entry is pointed at an address that nobody has: the bridge delivers such frames to nobody, silently,
as a cable that is cut. That takes no packet filter, and works for one direction or both.
"""

import subprocess
from pathlib import Path

PREFIX = "10.77.0."
LAB = "lab"
"""The bridge itself: the host that the run sees the network from. It is never cut off."""
_NUMBERS = {LAB: 254}
_NOWHERE = "02:00:00:00:ff:ff"


def run(*command: str) -> None:
    """Run a command that must succeed; its complaint is in the error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")


class Network:
    """Hosts by name."""

    def __init__(self, prefix: str = PREFIX) -> None:
        """Make the bridge; /run/netns becomes this mount namespace's own."""
        self._prefix = prefix
        Path("/run/netns").mkdir(exist_ok=True)
        run("mount", "-t", "tmpfs", "none", "/run/netns")
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "br0", "address", self._hardware(254), "type", "bridge")
        run("ip", "addr", "add", f"{self._prefix}254/24", "dev", "br0")
        run("ip", "link", "set", "br0", "up")
        self._numbers = dict(_NUMBERS)
        self._cuts: dict[tuple[str, str], None] = {}
        self._slowed: dict[str, None] = {}

    @property
    def hosts(self) -> list[str]:
        """All but the bridge."""
        return [name for name in self._numbers if name != LAB]

    def address(self, name: str) -> str:
        """The host's IPv4 address."""
        return f"{self._prefix}{self._numbers[name]}"

    def add(self, name: str) -> None:
        """Make a host, known to all others."""
        number = len(self._numbers)
        run("ip", "netns", "add", name)
        peer = ("peer", "name", "eth0", "netns", name, "address", self._hardware(number))
        run("ip", "link", "add", f"v{number}", "type", "veth", *peer)
        run("ip", "link", "set", f"v{number}", "master", "br0", "up")
        run("ip", "-n", name, "addr", "add", f"{self._prefix}{number}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        others = list(self._numbers)
        self._numbers[name] = number
        for other in others:
            self._point(name, other, self._hardware(self._numbers[other]))
            self._point(other, name, self._hardware(number))

    def enter(self, name: str) -> tuple[str, ...]:
        """Return the prefix that makes a command run on that host."""
        return ("nsenter", f"--net=/run/netns/{name}", "--")

    def cut(self, source: str, target: str) -> None:
        """Lose everything from one host to another; the other direction is not changed."""
        self._cuts[source, target] = None
        self._point(source, target, _NOWHERE)

    def cut_both(self, one: str, other: str) -> None:
        """Lose everything between two hosts."""
        self.cut(one, other)
        self.cut(other, one)

    def others(self, name: str) -> list[str]:
        """Every host that can be cut off from this one."""
        return [other for other in self.hosts if other != name]

    def slow(self, name: str, rate: str) -> None:
        """Let a host send no faster than this (tc's notation), with a short queue."""
        self._slowed[name] = None
        shape = ("tbf", "rate", rate, "burst", "16kb", "latency", "400ms")
        run(*self.enter(name), "tc", "qdisc", "replace", "dev", "eth0", "root", *shape)

    def heal(self) -> None:
        """Take back every cut and every slow link."""
        for source, target in self._cuts:
            self._point(source, target, self._hardware(self._numbers[target]))
        for name in self._slowed:
            run(*self.enter(name), "tc", "qdisc", "del", "dev", "eth0", "root")
        self._cuts.clear()
        self._slowed.clear()

    def _point(self, source: str, target: str, hardware: str) -> None:
        where = () if source == LAB else ("-n", source)
        device = "br0" if source == LAB else "eth0"
        entry = (self.address(target), "lladdr", hardware, "dev", device, "nud", "permanent")
        run("ip", *where, "neigh", "replace", *entry)

    @staticmethod
    def _hardware(number: int) -> str:
        return f"02:00:00:00:00:{number:02x}"
