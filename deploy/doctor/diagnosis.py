"""Derives findings from facts: applies every rule, in the order of the report. Pure."""

from collections.abc import Iterator

from .connections import clock_findings, connection_findings
from .facts import Examined
from .findings import Finding
from .replicas import partition_findings, placement_findings, restart_findings
from .upkeep import broker_findings, controller_findings, leftover_findings, skipped_findings

RULES = (
    connection_findings,
    controller_findings,
    broker_findings,
    partition_findings,
    restart_findings,
    leftover_findings,
    placement_findings,
    clock_findings,
    skipped_findings,
)


def diagnose(found: Examined) -> Iterator[Finding]:
    """Yield all that is wrong, and what could not be examined."""
    for rule in RULES:
        yield from rule(found)
