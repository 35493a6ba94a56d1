"""docs/chaos.md from the results of one run.

python -m tests.chaos.page chaos-results/COMMIT.json > docs/chaos.md
"""

import json
import sys
from pathlib import Path
from typing import Any

INTRODUCTION = """\
# Real faults against real processes

Written by `make chaos` (root only; [tests/chaos](../tests/chaos)) from one run. Every broker and
controller is a process on a host of its own: a network namespace on a bridge, with nothing beyond.
The workload is that of jepsen.tests.kafka: unique integers; four writers (two of ours, two
librdkafka, acks=all, idempotent) and two readers (one of each), of which one is killed and replaced
during every fault. After it everything must get well by itself; then all there is is read, and
compared with what every client did and was told ([checker](../tests/chaos/checker.py)).

- *acknowledged*: records in the whole run; *during*: while the fault lasted.
- *lost*: acknowledged and not read. *duplicated*: in the log twice. *other*: any of the checker's
  other anomalies (wrong offsets, aborted, phantom or vanished reads, broken order, skips).
  Figures in brackets: nothing was promised there.
- *gap*: the longest time without an acknowledged write in the worst partition, from the fault to
  recovery, for our client and for librdkafka at defaults, each with all it needs to notice.
  Where too few are left to go on (everything dead, the clients cut off with a minority) it is the
  length of the fault; so it is for librdkafka where a broker falls silent, because its default
  patience with one is a minute. A "follower" follows in one partition and leads in another.
- *well again*: from the end of the fault until all replicas are in sync and all writers go on.
"""


def page(found: dict[str, Any]) -> str:
    """Write the page."""
    machine = found["machine"]
    lines = [
        INTRODUCTION,
        f"- machine: {machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}, Python {machine['python']}",
        f"- commit: {machine['commit']}, at {found['at']}",
        "",
        "| fault | acknowledged | during | lost | duplicated | other | gap, ours (ms) "
        "| gap, librdkafka (ms) | well again (s) |",
        "|" + "---|" * 9,
        *(_row(result) for result in found["results"]),
        "",
    ]
    if found["skipped"]:
        lines += ["Skipped:", ""]
        lines += [f"- {name}: {why}" for name, why in found["skipped"].items()]
        lines.append("")
    broken = [result for result in found["results"] if result["problems"]]
    if broken:
        lines += ["**Promises broken in this run:**", ""]
        for result in broken:
            first_lines = (problem.splitlines()[0] for problem in result["problems"])
            lines += [f"- {result['fault']}: {line}" for line in first_lines]
        lines.append("")
    return "\n".join(lines)


def _row(result: dict[str, Any]) -> str:
    gaps = result["gap_ms"]
    cells = (
        result["what"],
        f"{result['acknowledged']:,}",
        f"{result['acknowledged_during']:,} in {result['during_seconds']:.1f} s",
        result["lost"] if result["is_promised"] else f"({result['lost']:,})",
        result["duplicated"] if result["is_promised"] else f"({result['duplicated']:,})",
        result["other_anomalies"] if result["is_promised"] else f"({result['other_anomalies']:,})",
        f"{gaps['ours']:,.0f}" if gaps else "-",
        f"{gaps['librdkafka']:,.0f}" if gaps else "-",
        f"{result['recovered_seconds']:.1f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Turn one results file into the page."""
    print(page(json.loads(Path(sys.argv[1]).read_text())), end="")


if __name__ == "__main__":
    main()
