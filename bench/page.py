"""docs/benchmarks.md from the results of one run, or of several that did some sections each.

python -m bench.page bench-results/COMMIT.json > docs/benchmarks.md
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from . import (
    authorizer,
    clients,
    connect,
    console,
    delay,
    failover_page,
    groups,
    host,
    metrics,
    rest,
    seal,
    spark,
    tls,
)

ABOUT_A_RUN = ("machine", "at", "versions", "stream_seconds", "floor")
"""What a results file holds besides its sections."""


class Run(NamedTuple):
    """Which sections count of which run."""

    commit: str
    at: str
    sections: list[str]


def merged(files: list[dict[str, Any]]) -> tuple[dict[str, Any], list[Run]]:
    """Put results together; of a section that is in several, the last counts."""
    results: dict[str, Any] = {}
    owner: dict[str, int] = {}
    for number, file in enumerate(files):
        results.update(file)
        owner.update(dict.fromkeys((name for name in file if name not in ABOUT_A_RUN), number))
    runs = [
        Run(file["machine"]["commit"], file["at"], [name for name in file if owner.get(name) == n])
        for n, file in enumerate(files)
    ]
    return results, [run for run in runs if run.sections]


def page(results: dict[str, Any], runs: list[Run]) -> str:
    """Write the page."""
    machine = results["machine"]
    lines = [
        "# Benchmarks",
        "",
        "From `make bench`; ratios are taken within a section's run, because the same command on",
        "the same machine differs by a factor of two from hour to hour. No test asserts a figure.",
        "",
        f"- machine: {machine['cores']} cores of {machine['cpu']}, {machine['memory_gib']} GiB, "
        f"Linux {machine['kernel']}, Python {machine['python']}",
        *(f"- commit {run.commit}, at {run.at}: {', '.join(run.sections)}" for run in runs),
        "- versions: " + ", ".join(f"{name} {v}" for name, v in results["versions"].items()),
        "",
        *_targets(results),
        *_ceilings(results),
        *_produce(results["produce"]),
        *(_validation(results["validation"]) if "validation" in results else ()),
        *(_authorizer(results["authorizer"]) if "authorizer" in results else ()),
        *_confluent(results["confluent"]),
        *_consume(results["consume"]),
        *(_clients(results["clients"]) if "clients" in results else ()),
        *_rest(results),
    ]
    return "\n".join(lines) + "\n"


def _table(*header: str) -> list[str]:
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _of(
    rows: list[dict[str, Any]], replication_factor: int, acks: int, case: str
) -> dict[str, Any]:
    return next(
        row
        for row in rows
        if (row["replication_factor"], row["acks"], row["case"]) == (replication_factor, acks, case)
    )


def _targets(results: dict[str, Any]) -> list[str]:
    rows, memory, startup = results["produce"], results["memory"], results["startup"]
    large = _of(rows, 1, 1, "1 MB batches of 1 KB")["cpu_ratio"]
    small = _of(rows, 1, 1, "one record of 100 B")["cpu_ratio"]
    chain = _of(rows, 3, -1, "1 MB batches of 1 KB")["rate_ratio"]
    flushed = [row["ratio"] for row in results.get("flush", ())]
    brokers = [name for name in memory["after_ready"] if name.startswith("broker")]
    resident = max(memory["after_ready"][name] for name in brokers)
    idle = max(memory["kib_per_idle_partition"][name] for name in brokers)
    checks = [
        ("1 MB batches, per broker CPU second, of the floor", "≥ 0.7", large, large >= 0.7),
        ("one-record requests, per broker CPU second, of the floor", "≥ 0.3", small, small >= 0.3),
        ("RF 3, acks=all, 1 MB batches of 1 KB, of the floor chain", "≥ 0.5", chain, chain >= 0.5),
        (
            "`minikafka up` to the first acks=all ack (s)",
            "< 2",
            startup["up_to_first_ack"],
            startup["up_to_first_ack"] < 2,
        ),
        ("broker memory after ready (MiB)", "< 60", resident, resident < 60),
        ("memory of one idle partition, of 1,000 (KiB)", "≤ 2", idle, idle <= 2),
        (
            "import of the package (s)",
            "< 0.3",
            startup["import_package"],
            startup["import_package"] < 0.3,
        ),
        ("`minikafka --help` (s)", "< 0.3", startup["help"], startup["help"] < 0.3),
        *(
            ("flush.policy=group of none, the least of all cases", "≥ 0.5", least, least >= 0.5)
            for least in sorted(flushed)[:1]
        ),
        *(clients.against_targets(results["clients"]) if "clients" in results else ()),
        *groups.checks(results),
        *failover_page.checks(results),
        *spark.checks(results),
        *metrics.checks(results),
        *tls.checks(results),
        *console.checks(results),
        *rest.checks(results),
        *connect.checks(results),
        *delay.checks(results),
    ]
    return [
        "## Against the targets",
        "",
        *_table("figure", "target", "this run", ""),
        *(
            _row(name, target, f"{value:.2f}", "met" if met else "**missed**")
            for name, target, value, met in checks
        ),
        "",
    ]


def _ceilings(results: dict[str, Any]) -> list[str]:
    ceilings, floor = results["ceilings"], results["floor"]
    verdict = "VOID: the floor was held back" if floor["void"] else "the floor is near enough"
    return [
        "## Ceilings and floor",
        "",
        *_table("what", "figure"),
        *(
            _row(name.replace("_", " "), f"{rate / 1e9:.2f} GB/s")
            for name, rate in ceilings.items()
        ),
        _row("floor at 1 MB, of the page-cache write", f"{floor['share_of_page_cache_write']:.2f}"),
        _row("floor at one record", f"{floor['one_record_requests_per_second']:,.0f} requests/s"),
        "",
        f"The floor is a bare server that only checks the CRC, stamps, appends and answers "
        f"(`bench/floor.py`); it must reach 0.4 of the page-cache write and 100,000 requests/s: "
        f"{verdict}.",
        "",
    ]


def _validation(rows: list[dict[str, Any]]) -> list[str]:
    """Say what each level costs, as a share of what level batch does."""
    return [
        "## Validation of records",
        "",
        "CPU of the broker that leads, one copy, acks=1; the ratio is to level batch.",
        "",
        *_table("case", "level", "us/request", "ratio"),
        *(
            _row(
                row["case"],
                row["level"],
                f"{row['cpu_us_per_request']:.1f}",
                f"{row['ratio']:.2f}",
            )
            for row in rows
        ),
        "",
    ]


def _authorizer(rows: list[dict[str, Any]]) -> list[str]:
    """Say what a decision costs, and what it may cost with the most entries."""
    return [
        "## Authorizer",
        "",
        "A decision about one topic, in microseconds of one process. Cold is the first since an",
        f"ACL changed, at most {authorizer.COLD_MOST_US:.0f} with 10,000; cached is any later",
        f"one of the connection, at most {authorizer.CACHED_MOST_US:.0f}.",
        "",
        *_table("ACLs", "cold us", "cached us"),
        *(_row(row["entries"], f"{row['cold_us']:.2f}", f"{row['cached_us']:.2f}") for row in rows),
        "",
    ]


def _produce(rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Produce",
        "",
        "A generator replays prebuilt requests. RF 1 is compared with the floor, RF 3 with the",
        "chain of three (a leader that answers when two peers have). CPU is of all threads of the",
        "broker that leads; `all` adds its followers. CPU ratio: the floor's CPU over ours.",
        "",
        *_table(
            "RF",
            "acks",
            "case",
            "requests/s",
            "MB/s",
            "core",
            "us/request",
            "us/request, all",
            "CPU s/GB",
            "CPU ratio",
            "rate ratio",
        ),
    ]
    for row in rows:
        ours = row["cluster"]
        per_gigabyte = 1e9 / ours["bytes_per_cpu_second"]
        lines.append(
            _row(
                row["replication_factor"],
                "all" if row["acks"] == -1 else row["acks"],
                row["case"],
                f"{ours['requests_per_second']:,.0f}",
                f"{ours['bytes_per_second'] / 1e6:,.0f}",
                f"{ours['core_share']:.2f}",
                f"{ours['cpu_us_per_request']:.1f}",
                f"{ours['all_cpu_us_per_request']:.1f}",
                f"{per_gigabyte:.2f}",
                f"{row['cpu_ratio']:.2f}",
                f"{row['rate_ratio']:.2f}",
            )
        )
    return [*lines, ""]


def _confluent(rows: list[dict[str, Any]]) -> list[str]:
    return [
        "The same cases through confluent-kafka, unmodified; the client limits most of them.",
        "",
        *_table("RF", "acks", "case", "records/s", "MB/s", "broker cores"),
        *(
            _row(
                row["replication_factor"],
                "all" if row["acks"] == -1 else row["acks"],
                row["case"],
                f"{row['records_per_second']:,.0f}",
                f"{row['megabytes_per_second']:,.0f}",
                f"{row['broker_cores']:.2f}",
            )
            for row in rows
        ),
        "",
    ]


def _consume(rows: list[dict[str, Any]]) -> list[str]:
    return [
        "## Consume",
        "",
        *_table("record bytes", "how", "MB/s", "records/s", "broker CPU s/GB", "client CPU s/GB"),
        *(
            _row(
                row["record_bytes"],
                row["how"],
                f"{row['megabytes_per_second']:,.0f}",
                f"{row['records_per_second']:,.0f}",
                f"{row['broker_cpu_seconds_per_gigabyte']:.2f}",
                f"{row['client_cpu_seconds_per_gigabyte']:.2f}",
            )
            for row in rows
        ),
        "",
    ]


def _clients(rows: list[dict[str, Any]]) -> list[str]:
    return [
        "## Clients compared",
        "",
        "Records per CPU-second of the client process, each client in a process of its own against",
        "the same broker, medians of several rounds. acks=all, idempotent, one partition, no keys,",
        "batches of at most 250 KB; readers look at every value.",
        "",
        *_table("record bytes", "client", "how", "records/CPU s", "records/s"),
        *(
            _row(
                row["record_bytes"],
                row["client"],
                row["how"],
                f"{row['records_per_cpu_second']:,.0f}",
                f"{row['records_per_second']:,.0f}",
            )
            for produces in (True, False)
            for row in sorted(rows, key=lambda row: int(row["record_bytes"]))
            if row["produces"] is produces
        ),
        "",
    ]


def _rest(results: dict[str, Any]) -> list[str]:
    memory, startup = results["memory"], results["startup"]
    return [
        "## Latency",
        "",
        "One-record requests in an open loop; a latency runs from when the request was due.",
        "",
        *_table("RF", "acks", "rate/s", "p50 ms", "p99 ms", "p99.9 ms", "max ms"),
        *(
            _row(
                row["rf"],
                "all" if row["acks"] == -1 else row["acks"],
                row["rate"],
                row["p50"],
                row["p99"],
                row["p999"],
                row["most"],
            )
            for row in results["latency"]
        ),
        "",
        "## Start-up and memory",
        "",
        *_table("what", "figure"),
        *(_row(name.replace("_", " "), f"{seconds:.2f} s") for name, seconds in startup.items()),
        *(
            _row(f"{name} after ready (PSS)", f"{mib:.1f} MiB")
            for name, mib in memory["after_ready"].items()
        ),
        *(
            _row(f"{name}, one idle partition of 1,000", f"{kib:.2f} KiB")
            for name, kib in memory["kib_per_idle_partition"].items()
        ),
        *(_row(name, figure) for name, figure in groups.rows(results)),
        *(_flush(results["flush"]) if "flush" in results else ()),
        *failover_page.section(results),
        *spark.section(results),
        *console.section(results),
        *rest.section(results),
        *connect.section(results),
        *metrics.section(results),
        *seal.section(results),
        *tls.section(results),
        *delay.section(results),
        *host.section(results),
    ]


def _flush(rows: list[dict[str, Any]]) -> list[str]:
    return [
        "",
        "## Durability",
        "",
        "Requests per second into one partition, acknowledged after a shared flush of every copy",
        "that counts (`flush.policy=group`) or before any (`none`).",
        "",
        *_table("RF", "acks", "case", "none", "group", "group of none"),
        *(
            _row(
                row["replication_factor"],
                "all" if row["acks"] == -1 else row["acks"],
                row["case"],
                f"{row['none']['requests_per_second']:,.0f}",
                f"{row['group']['requests_per_second']:,.0f}",
                f"{row['ratio']:.2f}",
            )
            for row in rows
        ),
    ]


def main() -> None:
    """Turn results files into the page; of a section that is in several, the last counts."""
    print(page(*merged([json.loads(Path(path).read_text()) for path in sys.argv[1:]])), end="")


if __name__ == "__main__":
    main()
