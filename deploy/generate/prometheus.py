"""The Prometheus scrape config: one target for each daemon, labelled with its kind and node id."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...client.net.address import Address
from ...runtime.errors import ConfigError
from ..layout import Layout
from .yaml_text import Value, text_of

_NAME: Final = re.compile(r"(broker|controller)-(\d{1,10})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Target:
    """A daemon that serves metrics."""

    address: str
    """The daemon's metrics listener as HOST:PORT."""
    kind: str = ""
    """`broker` or `controller`; empty if it is not known."""
    node_id: str = ""


def parse_targets(text: str) -> Iterator[Target]:
    """Parse comma-separated HOST:PORT or KIND-ID=HOST:PORT; raise ConfigError for anything else."""
    for item in text.split(","):
        name, named, address = item.strip().rpartition("=")
        match = _NAME.fullmatch(name)
        if named and match is None:
            raise ConfigError("targets", item, "a node's name is like broker-1 or controller-3001")
        yield _target("targets", address, match)


def targets_in(directory: Path) -> Iterator[Target]:
    """Read the targets of a cluster that `minikafka up --data` made.

    Raise ConfigError if it has none.
    """
    try:
        layout = Layout.read(directory)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("data", str(directory), f"cannot be read: {error}") from error
    if layout is None:
        raise ConfigError("data", str(directory), "holds no cluster of `minikafka up --data`")
    for node in layout.nodes:
        if node.metrics is None:
            why = f"{node.properties_path.name} of {node.name} sets none, so nobody can scrape it"
            raise ConfigError("metrics.listener", None, why)
        yield _target("metrics.listener", node.metrics, _NAME.fullmatch(node.name))


def scrape_config(targets: Iterable[Target], job: str, interval: str, rules: str | None) -> str:
    """Return a Prometheus configuration file, which loads `rules` if that file is given.

    Raise ConfigError if two targets have the same address.
    """
    entries: list[Value] = []
    seen: dict[str, None] = {}
    for target in targets:
        if target.address in seen:
            raise ConfigError("targets", target.address, "is named twice")
        seen[target.address] = None
        labels = {"node_kind": target.kind, "node_id": target.node_id} if target.kind else {}
        entry: dict[str, Value] = {"targets": [target.address]}
        entries.append({**entry, "labels": labels} if labels else entry)
    return text_of(
        {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            **({} if rules is None else {"rule_files": [rules]}),
            "scrape_configs": [{"job_name": job, "static_configs": entries}],
        }
    )


def _target(key: str, text: str, name: re.Match[str] | None) -> Target:
    try:
        address = str(Address.parse(text))
    except ConfigError as error:
        raise ConfigError(key, text, "must be host:port with a port from 1 to 65535") from error
    if not re.fullmatch(r"[\w.:\[\]-]+", address, re.ASCII):
        raise ConfigError(key, text, "is no host: letters, digits, dots, dashes and colons are")
    return Target(address, *(name.groups() if name is not None else ()))
