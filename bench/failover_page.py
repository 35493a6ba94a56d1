"""The part of docs/benchmarks.md about things that go away and come back."""

from typing import Any

Check = tuple[str, str, float, bool]
"""What, its target, the figure, and whether that meets it."""

KILL, STOP = "SIGKILL of a leader", "SIGSTOP of a leader"
CONTROLLER, SHUTDOWN = "SIGKILL of the active controller", "clean shutdown of a leader"
ROLLING = "rolling restart"
LIMITS = (
    (KILL, "ours", "p50", 200),
    (KILL, "ours", "max", 500),
    (STOP, "elected", "max", 2000),
    (STOP, "ours", "max", 3000),
    (CONTROLLER, "elected", "max", 500),
    (SHUTDOWN, "ours", "p99", 100),
)
KINDS = {"ours": "gap of our client", "elected": "until elected"}


def checks(results: dict[str, Any]) -> list[Check]:
    """Compare with the targets."""
    found: list[Check] = []
    rows = {row["event"]: row for row in results.get("failover", ())}
    for event, kind, which, limit in LIMITS:
        spread = rows.get(event, {}).get(kind)
        if spread is not None:
            what = f"{event}: {KINDS[kind]}, {which} (ms)"
            found.append((what, f"≤ {limit}", spread[which], spread[which] <= limit))
    if rows:
        lost = sum(row["lost"] for row in rows.values())
        found.append(("acknowledged records lost in all of these", "0", lost, lost == 0))
        failed = rows.get(SHUTDOWN, {}).get("failed_sends")
        if failed is not None:
            found.append((f"{SHUTDOWN}: failed writes", "0", failed, failed == 0))
    busy = results.get("false_failovers")
    if busy is not None:
        false = busy["fenced"] + busy["leader_changes"] + busy["controller_changes"]
        what = f"false failovers in {busy['seconds']:.0f} s of full CPU load"
        found.append((what, "0", false, false == 0))
    return found


def section(results: dict[str, Any]) -> list[str]:
    """Write the tables."""
    lines = [
        "",
        "## Failover",
        "",
        "The longest time without an acknowledged write (acks=all, 200 records/s of each client,",
        "both at defaults) around an event, over so many trials; milliseconds. *Elected*: until a",
        "surviving broker names the new leader; for a controller: until metadata can be changed.",
        "",
        "| event | trials | ours p50 | p99 | max | librdkafka p50 | max | elected p50 | max "
        "| failed sends | lost | duplicated |",
        "|" + "---|" * 12,
        *(_row(row) for row in results.get("failover", ())),
        "",
        "librdkafka keeps waiting for a stopped broker for its default patience of a minute; it is",
        "waited for in the first trials only.",
        "",
    ]
    if (caught_up := results.get("catch_up")) is not None:
        lines += [
            f"A follower that was away for {caught_up['megabytes']:,} MB was in sync again after "
            f"{caught_up['seconds']} s: {caught_up['megabytes_per_second']:,.0f} MB/s. One-record",
            f"acks=all requests at {caught_up['rate']}/s had a p99 of "
            f"{caught_up['p99_ms_before']} ms before, {caught_up['p99_ms_meanwhile']} ms meanwhile "
            f"(most {caught_up['most_ms_meanwhile']} ms).",
            "",
        ]
    if (busy := results.get("false_failovers")) is not None:
        lines += [
            f"{busy['seconds']:.0f} s with {busy['burners']} spinning processes beside a cluster:",
            f"{busy['fenced']} brokers fenced, {busy['leader_changes']} leaders and",
            f"{busy['controller_changes']} active controllers changed, {busy['failed_sends']} of "
            f"{busy['acknowledged']:,} writes failed; longest gap {busy['longest_gap_ms']} ms.",
            "",
        ]
    return lines


def _row(row: dict[str, Any]) -> str:
    def cell(kind: str, which: str) -> str:
        return "-" if row[kind] is None else f"{row[kind][which]:,.0f}"

    cells = (
        row["event"],
        row["trials"],
        *(cell("ours", which) for which in ("p50", "p99", "max")),
        *(cell("librdkafka", which) for which in ("p50", "max")),
        *(cell("elected", which) for which in ("p50", "max")),
        row["failed_sends"],
        row["lost"],
        row["duplicated"],
    )
    return "| " + " | ".join(map(str, cells)) + " |"
