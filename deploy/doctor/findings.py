"""The findings of an examination, and how they are grouped for the report. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad a finding is; a note alone is no fault."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or that could not be examined."""

    kind: str
    severity: Severity
    where: str
    """The address, broker, partition, topic or group."""
    what: str
    cure: str
    command: tuple[str, ...] = ()
    """The command that shows or repairs it, without `minikafka` and the bootstrap servers."""


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one kind and severity."""

    kind: str
    severity: Severity
    shown: tuple[Finding, ...]
    count: int
    """The findings in all, shown or not."""

    @property
    def hidden_count(self) -> int:
        """The number of findings that are not shown."""
        return self.count - len(self.shown)


def grouped(findings: Iterable[Finding], most: int) -> list[Group]:
    """Group findings, the worst first, and show at most `most` of each group."""
    groups: dict[tuple[Severity, str], list[Finding]] = {}
    for one in findings:
        groups.setdefault((one.severity, one.kind), []).append(one)
    rank = list(Severity)
    return [
        Group(kind, severity, tuple(found[:most]), len(found))
        for (severity, kind), found in sorted(groups.items(), key=lambda one: rank.index(one[0][0]))
    ]


def is_well(findings: Iterable[Finding]) -> bool:
    """True if nothing is wrong."""
    return all(one.severity is Severity.NOTE for one in findings)
