"""The daemons of a cluster of several hosts: the host and the properties of each."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final, Literal

from ...client.net.address import Address
from ...runtime.config import PORT_MAX
from ...runtime.errors import ConfigError

NODE_ID_MAX: Final = 0x7FFFFFFF
QUORUMS: Final = (1, 3, 5)
_MEMBER: Final = re.compile(r"(\d{1,10})=(\S+)", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,39}")

Role = Literal["broker", "controller"]
PORTS: Final[Mapping[Role, int]] = {"broker": 9092, "controller": 9093}


@dataclass(frozen=True, slots=True)
class Member:
    """A daemon on its host."""

    role: Role
    node_id: int
    address: Address
    metrics: Address | None = None

    @property
    def name(self) -> str:
        """The name of the daemon, of its properties file and its directory: `broker-1`."""
        return f"{self.role}-{self.node_id}"


@dataclass(frozen=True, slots=True)
class Members:
    """The daemons of one cluster, and the directory in which each keeps its data."""

    controllers: tuple[Member, ...]
    brokers: tuple[Member, ...]
    data: PurePosixPath

    @property
    def hosts(self) -> Mapping[str, tuple[Member, ...]]:
        """The daemons of each host, controllers first."""
        found: dict[str, list[Member]] = {}
        for member in self.controllers + self.brokers:
            found.setdefault(member.address.host, []).append(member)
        return {host: tuple(members) for host, members in found.items()}

    def properties(self, member: Member) -> dict[str, str]:
        """Return a daemon's properties; its host is its rack, so that replicas are spread."""
        racks = len({broker.address.host for broker in self.brokers})
        copies = min(3, racks if racks > 1 else len(self.brokers))
        in_sync = min(2, copies)
        quorum = ",".join(f"{each.node_id}@{each.address}" for each in self.controllers)
        is_broker = member.role == "broker"
        return {
            "node.id": str(member.node_id),
            "listeners": f"{'PLAINTEXT' if is_broker else 'CONTROLLER'}://{member.address}",
            **({"broker.rack": member.address.host} if is_broker else {}),
            **({} if member.metrics is None else {"metrics.listener": str(member.metrics)}),
            "controller.quorum.voters": quorum,
            "log.dirs": str(self.data / member.name),
            "default.replication.factor": str(copies),
            "min.insync.replicas": str(in_sync),
            "offsets.topic.replication.factor": str(copies),
            "transaction.state.log.replication.factor": str(copies),
            "transaction.state.log.min.isr": str(in_sync),
        }


def parse_members(
    controllers: str, brokers: str, data: PurePosixPath, metrics_port: int | None = None
) -> Members:
    """Parse comma-separated ID=HOST[:PORT] for each role; raise ConfigError if it is not valid.

    Without a port a broker listens at 9092 and a controller at 9093. With `metrics_port`, the
    daemons of a host serve metrics there and at the ports after it, controllers first.
    """
    members: list[Member] = []
    on_host: Counter[str] = Counter()
    for member in (*_parse("controller", controllers), *_parse("broker", brokers)):
        host = member.address.host
        if metrics_port is not None:
            member = replace(member, metrics=Address(host, metrics_port + on_host[host]))
        on_host[host] += 1
        members.append(member)
    _check(members)
    voters = tuple(member for member in members if member.role == "controller")
    if len(voters) not in QUORUMS:
        why = "are 1, 3 or 5: an even number bears no more failures than the odd one below it"
        raise ConfigError("controllers", controllers, why)
    return Members(voters, tuple(members[len(voters) :]), data)


def _parse(role: Role, text: str) -> Iterator[Member]:
    for item in text.split(","):
        key, match = f"{role}s", _MEMBER.fullmatch(item.strip())
        if match is None or int(match[1]) > NODE_ID_MAX:
            raise ConfigError(key, item, "must be ID=HOST or ID=HOST:PORT, as in 1=10.0.0.1")
        has_port = match[2].count(":") == 1 or "]:" in match[2]
        server = match[2] if has_port else f"{match[2]}:{PORTS[role]}"
        try:
            address = Address.parse(server)
        except ConfigError as error:
            raise ConfigError(key, item, f"must have a port from 1 to {PORT_MAX}") from error
        if not _HOST.fullmatch(address.host):
            raise ConfigError(key, item, "names no host: letters, digits, dots and dashes are")
        yield Member(role, int(match[1]), address)


def _check(members: Iterable[Member]) -> None:
    """Raise ConfigError for an id or an address that two daemons have, or a port out of range."""
    seen: dict[object, str] = {}
    for member in members:
        for what in (member.node_id, member.address, member.metrics):
            if what in seen:
                why = f"is that of {seen[what]} too: name another, as in 2=10.0.0.1:9192"
                raise ConfigError(f"{member.role}s", str(what), why)
            if isinstance(what, Address) and what.port > PORT_MAX:
                raise ConfigError("metrics-port", str(what), f"ports end at {PORT_MAX}")
            if what is not None:
                seen[what] = member.name
