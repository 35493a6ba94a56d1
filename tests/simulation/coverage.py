"""Counts what happened in runs: every kind of fault, every transition of the state machines.

Each counter must be named here before it is used, so that one that was never reached shows as 0.
"""

from collections.abc import Iterator, Mapping

FAULTS = (
    "kill-broker",
    "kill-leader",
    "kill-controller",
    "kill-active-controller",
    "kill-all",
    "die-writing",
    "terminate",
    "rolling-restart",
    "pause",
    "power-broker",
    "power-controller",
    "power-all",
    "disk-error",
    "disk-full",
    "slow-disk",
    "isolate",
    "isolate-active-controller",
    "isolate-leader",
    "cut-one-way",
    "swizzle-clog",
    "half-open",
    "slow-network",
    "lossy-datagrams",
    "gray-node",
    "late-words",
    "slow-follower",
    "stale-proposal",
    "late-expansion",
    "late-client",
    "lead-moved-and-back",
    "clock-jump",
)
"""The faults from which shape.py draws."""
LATER_FAULTS = ("lose-directory", "bit-rot")
LAST_FAULTS = ("rot-metadata",)
SEALED_FAULTS = ("stranger", "change-keys")
"""The faults that variety.py adds, drawn after everything else; the last in sealed clusters."""
OPERATIONS = (
    "create-topic",
    "delete-topic",
    "recreate-topic",
    "add-partitions",
    "reassign",
    "cancel-reassignment",
    "elect-preferred",
    "elect-uncleanly",
    "change-config",
)
LATER_OPERATIONS = (
    "delete-records",
    "throttle",
    "move-replica",
    "change-credential",
    "change-acls",
    "change-quotas",
)
REFUSALS = (
    "topics",
    "settings",
    "moves-and-elections",
    "features",
    "quorum",
    "brokers",
    "proposals",
    "fetch-sessions",
    "reads",
    "unknown-groups",
    "unknown-members",
    "static-members",
    "full-groups",
    "forgotten-offsets",
    "offsets-of-a-topic",
    "producers",
    "transactional-offsets",
    "commit-groups",
)
"""The sequences of bad requests that ran from beginning to end."""
TRANSITIONS = (
    # partitions, as controllers commit them
    "isr-shrunk",
    "isr-grown",
    "isr-emptied",
    "leader-from-isr",
    "leader-from-elr",
    "leader-uncleanly",
    "leaderless",
    "elr-grown",
    "elr-left",
    "reassignment-began",
    "reassignment-completed",
    "reassignment-cancelled",
    "topic-deleted",
    "topic-name-used-again",
    # brokers, as controllers commit them
    "broker-registered",
    "broker-registered-again",
    "broker-unfenced",
    "broker-fenced",
    "broker-shutting-down",
    # replicas
    "became-leader",
    "became-follower",
    "led-again",
    "truncated",
    "high-watermark-frozen",
    "log-start-moved",
    "log-begun-again",
    "log-compacted",
    "aborted-in-compacted",
    "parked-in-transaction",
    "cancelled",
    "cancel-refused",
    "rescheduled",
    "plan-given-up",
    "isr-change-refused",
    "torn-log-cut",
    "log-directory-failed",
    "log-put-aside",
    "replica-moved",
    "lost-range-reported",
    "rot-mended",
    "lease-won",
    "lease-ended",
    # quorum
    "controller-elected",
    "controller-resigned",
    "controller-snapshot-written",
    "controller-snapshot-loaded",
    "metadata-truncated",
    "broker-loaded-snapshot",
    # clients
    "acknowledged-by-all",
    "acknowledged-by-one",
    "not-acknowledged",
    "polled",
    "polled-from-follower",
    # groups
    "partition-assigned",
    "partition-revoked",
    "partition-lost",
    "polled-in-group",
    "commit-acknowledged",
    "commit-refused",
    # transactions
    "transaction-committed",
    "transaction-aborted",
    "transaction-unknown",
    "transactional-producer-failed",
    "piped",
    "pipe-failed",
    # commit groups
    "group-committed",
    "group-replayed",
    "group-refused",
    "group-unanswered",
    "group-left-behind",
    "group-run-failed",
    # a cluster of Connect
    "connect-moved",
    "connect-changed",
    "connect-refused",
    "connect-worker-killed",
    "connect-worker-stopped",
    "connect-worker-silent",
    "connect-fenced",
)
CELLS: dict[str, tuple[str, ...]] = {
    "fault": (*FAULTS, *LATER_FAULTS, *LAST_FAULTS, *SEALED_FAULTS),
    "operation": (*OPERATIONS, *LATER_OPERATIONS),
    "refusal": REFUSALS,
    "transition": TRANSITIONS,
}


LOGGED = {
    "%r: isr %s: %s": "isr-change-refused",
    "cut off here": "torn-log-cut",
    "log directory %s failed": "log-directory-failed",
    "put aside as": "log-put-aside",
    "%r: mended offsets": "rot-mended",
    "unclean leader election lost offsets": "lost-range-reported",
    "metadata: loaded the snapshot": "broker-loaded-snapshot",
    "%r: moved to %s": "replica-moved",
    "no answer of the coordinator for": "connect-worker-silent",
    "its old tasks are fenced": "connect-fenced",
}
"""Transitions that are recognised by a daemon's log message, by a part of it."""


class Coverage:
    """The number of times that each counted event happened."""

    def __init__(self) -> None:
        self._logged: dict[str, str | None] = {}
        self.counts = {f"{kind} {name}": 0 for kind, names in CELLS.items() for name in names}

    def note(self, kind: str, name: str, times: int = 1) -> None:
        """Add to a counter; raise KeyError for one that is not named above."""
        key = f"{kind} {name}"
        self.counts[key] += times  # A misspelt name is a KeyError, not a new cell.

    def on_log(self, message: object) -> None:
        """Count the transition, if any, that a daemon's log message stands for."""
        if not isinstance(message, str):
            return
        if message not in self._logged:
            found = [cell for part, cell in LOGGED.items() if part in message]
            self._logged[message] = found[0] if found else None
        cell = self._logged[message]
        if cell is not None:
            self.note("transition", cell)

    def add(self, counts: Mapping[str, int]) -> None:
        """Add another run's counts."""
        for key, count in counts.items():
            self.counts[key] += count

    @property
    def missing(self) -> list[str]:
        """The names of the events that never happened."""
        return [key for key, count in self.counts.items() if not count]

    def table(self, columns: int = 3) -> Iterator[str]:
        """Yield the counts as lines of `count name`, grouped by kind."""
        for kind, names in CELLS.items():
            yield f"{kind}s:"
            cells = [f"{self.counts[f'{kind} {name}']:>9} {name:<27}" for name in names]
            for start in range(0, len(cells), columns):
                yield "".join(cells[start : start + columns]).rstrip()
