"""Findings as lines for a terminal, and as JSON. Pure."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from .facts import Examined
from .findings import Finding, Group, Severity

COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


def command_line(command: Sequence[str], bootstrap: str) -> str:
    """Return the whole line to run; its first element may be a command and a subcommand."""
    if not command:
        return ""
    words = shlex.join(["--bootstrap-server", bootstrap, *command[1:]])
    return f"minikafka {command[0]} {words}"


def lines(
    found: Examined, groups: Sequence[Group], bootstrap: str, *, colours: bool = False
) -> Iterator[str]:
    """Yield the report for a terminal, the worst first."""
    entry = found.entry
    if entry is not None:
        cluster = f"Cluster {entry.cluster_id}: {len(found.brokers)} brokers"
        yield f"{cluster}, {len(found.partitions)} partitions"
    for group in groups:
        yield ""
        head = f"{group.severity.name} {group.kind}"
        yield click.style(head, fg=COLOURS[group.severity], bold=True) if colours else head
        for one in group.shown:
            yield f"  {one.where}: {one.what}"
        if group.hidden_count:
            yield f"  ... and {group.hidden_count} more"
        for cure in dict.fromkeys(one.cure for one in group.shown):
            yield f"  -> {cure}"
        for command in dict.fromkeys(one.command for one in group.shown if one.command):
            yield f"     {command_line(command, bootstrap)}"
    counts = dict.fromkeys(("error", "warning", "note"), 0)
    for group in groups:
        counts[group.severity.value] += group.count
    yield ""
    if counts["error"] or counts["warning"]:
        yield ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in counts.items())
    else:
        yield "Nothing is wrong."


def document(found: Examined, groups: Sequence[Group], bootstrap: str) -> Mapping[str, Any]:
    """Return the report as a value for JSON; `count` counts findings that are left out, too."""
    entry = found.entry
    return {
        "cluster_id": None if entry is None else entry.cluster_id,
        "brokers": len(found.brokers),
        "partitions": len(found.partitions),
        "kinds": [
            {
                "kind": group.kind,
                "severity": group.severity.value,
                "count": group.count,
                "findings": [_entry(one, bootstrap) for one in group.shown],
            }
            for group in groups
        ],
    }


def _entry(one: Finding, bootstrap: str) -> dict[str, str | None]:
    return {
        "where": one.where,
        "what": one.what,
        "cure": one.cure,
        "command": command_line(one.command, bootstrap) or None,
    }
