"""Run the benchmarks: everything as a ratio to ceilings and floors of the same run.

    python -m bench                      everything, about an hour on 2 cores
    python -m bench produce memory       some sections

Figures go to the terminal and, with the machine and the commit, to bench-results/*.json.
"""

import importlib.metadata
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from minikafka.deploy.local_cluster import LocalCluster

from . import (
    authorizer,
    catch_up,
    ceilings,
    clients,
    confluent,
    connect,
    console,
    consume,
    delay,
    failover,
    false_failovers,
    flush,
    groups,
    host,
    latency,
    memory,
    metrics,
    produce,
    rest,
    seal,
    spark,
    startup,
    tls,
    trace,
    validation,
)
from .meters import machine

FLOOR_SHARE_OF_WRITE = 0.4
FLOOR_REQUESTS_PER_SECOND = 100_000
PACKAGES = ("uvloop", "msgpack", "crc32c", "cramjam", "confluent-kafka", "aiokafka", "numpy")
KINDS = ("ours", "librdkafka", "elected")
Section = Callable[[dict[str, Any]], None]


def say(text: str = "") -> None:
    """Print a line of the report."""
    click.echo(text)


def run_ceilings(results: dict[str, Any]) -> None:
    """Measure what the machine can do, and whether the floor comes near enough to it."""
    found = ceilings.measure()
    results["ceilings"] = found._asdict()
    for name, rate in found._asdict().items():
        say(f"{name:<20} {rate / 1e9:8.2f} GB/s")
    large = produce.median([produce.floor_round(produce.CASES[0], peers=0) for _ in range(3)])
    small = produce.median([produce.floor_round(produce.CASES[-1], peers=0) for _ in range(3)])
    share = large.bytes_per_second / found.page_cache_write
    results["floor"] = {
        "share_of_page_cache_write": share,
        "one_record_requests_per_second": small.requests_per_second,
        "void": share < FLOOR_SHARE_OF_WRITE
        or small.requests_per_second < FLOOR_REQUESTS_PER_SECOND,
    }
    say(f"floor at 1 MB: {share:.2f} of the page-cache write (void below {FLOOR_SHARE_OF_WRITE})")
    say(f"floor at one record: {small.requests_per_second:,.0f} requests/s (void below 100,000)")
    if results["floor"]["void"]:
        say("THIS RUN IS VOID: the floor was held back, so no ratio to it means anything")


def run_produce(results: dict[str, Any]) -> None:
    """Measure produce at replication factor 1 and 3 against the floor and the chain."""
    rows = results["produce"] = []
    header = f"{'RF acks case':<30} {'req/s':>9} {'MB/s':>7} {'core':>5} {'us/req':>8} "
    say(header + f"{'CPU ratio':>9} {'rate ratio':>10}")
    for replication_factor in (1, 3):
        with LocalCluster(brokers=replication_factor) as cluster:
            for case in produce.CASES:
                for acks in (1, -1):
                    row = _produce_row(cluster, case, replication_factor, acks)
                    rows.append(row)
                    ours = row["cluster"]
                    say(
                        f"{replication_factor}  {acks:>3}  {case.name:<22} "
                        f"{ours['requests_per_second']:>9,.0f} "
                        f"{ours['bytes_per_second'] / 1e6:>7.0f} {ours['core_share']:>5.2f} "
                        f"{ours['cpu_us_per_request']:>8.1f} {row['cpu_ratio']:>9.2f} "
                        f"{row['rate_ratio']:>10.2f}"
                    )


def _produce_row(
    cluster: LocalCluster, case: produce.Case, replication_factor: int, acks: int
) -> dict[str, Any]:
    floors, ours = [], []
    for _ in range(produce.ROUNDS):
        floors.append(produce.floor_round(case, peers=replication_factor - 1))
        ours.append(produce.cluster_round(cluster, case, replication_factor, acks))
    floor, mine = produce.median(floors), produce.median(ours)
    return {
        "replication_factor": replication_factor,
        "acks": acks,
        "case": case.name,
        "cluster": {**vars_of(mine), "bytes_per_cpu_second": mine.bytes_per_cpu_second},
        "floor": {**vars_of(floor), "bytes_per_cpu_second": floor.bytes_per_cpu_second},
        "cpu_ratio": floor.cpu_us_per_request / mine.cpu_us_per_request,
        "rate_ratio": mine.bytes_per_second / floor.bytes_per_second,
    }


def vars_of(measured: produce.Measured) -> dict[str, float]:
    """Give the fields of a measurement."""
    return {name: getattr(measured, name) for name in measured.__dataclass_fields__}


def run_validation(results: dict[str, Any]) -> None:
    """Measure what looking at records costs a broker, level by level."""
    with LocalCluster(brokers=1) as cluster:
        costs = validation.compare(cluster)
    results["validation"] = [cost._asdict() for cost in costs]
    for cost in costs:
        cpu = f"{cost.cpu_us_per_request:>8.1f} us/req {cost.ratio:>6.2f}"
        say(f"{cost.case:<32} {cost.level:<10} {cpu}")


def run_trace(results: dict[str, Any]) -> None:
    """Measure what trace points cost a broker."""
    with LocalCluster(brokers=1) as cluster:
        costs = trace.compare(cluster)
    results["trace"] = [cost._asdict() for cost in costs]
    for cost in costs:
        cpu = f"{cost.cpu_us_per_request:>8.1f} us/req {cost.cpu_ratio:>6.3f}"
        say(f"{cost.case:<24} every {cost.every:<5} {cpu}, requests/s {cost.rate_ratio:.3f}")


def run_authorizer(results: dict[str, Any]) -> None:
    """Measure what a decision of the authorizer costs."""
    found = [authorizer.measure(count) for count in authorizer.ENTRIES]
    results["authorizer"] = [cost._asdict() for cost in found]
    for cost in found:
        say(f"{cost.entries:>6} ACLs: cold {cost.cold_us:.2f} us, cached {cost.cached_us:.2f} us")


def run_confluent(results: dict[str, Any]) -> None:
    """Measure confluent-kafka against the same clusters."""
    rows = results["confluent"] = []
    say(f"{'RF acks case':<30} {'records/s':>10} {'MB/s':>7} {'broker cores':>12}")
    for replication_factor in (1, 3):
        with LocalCluster(brokers=replication_factor) as cluster:
            for case in produce.CASES:
                acks = 1 if replication_factor == 1 else -1
                found = confluent.measure(cluster, case, replication_factor, acks)
                rows.append(
                    {"replication_factor": replication_factor, "acks": acks, "case": case.name}
                    | found._asdict()
                )
                say(
                    f"{replication_factor}  {acks:>3}  {case.name:<22} "
                    f"{found.records_per_second:>10,.0f} {found.megabytes_per_second:>7.0f} "
                    f"{found.broker_cores:>12.2f}"
                )


def run_consume(results: dict[str, Any]) -> None:
    """Measure reading one partition."""
    rows = results["consume"] = []
    say(f"{'records':<8} {'how':<30} {'MB/s':>7} {'records/s':>11} {'broker CPU s/GB':>15}")
    with LocalCluster(brokers=1) as cluster:
        for record_bytes in (100, 1000):
            for found in consume.measure(cluster, record_bytes):
                rows.append({"record_bytes": record_bytes, **found._asdict()})
                say(
                    f"{record_bytes:<8} {found.how:<30} {found.megabytes_per_second:>7.0f} "
                    f"{found.records_per_second:>11,.0f} "
                    f"{found.broker_cpu_seconds_per_gigabyte:>15.2f}"
                )


def run_clients(results: dict[str, Any]) -> None:
    """Compare client libraries, ours with either record codec."""
    rows = results["clients"] = []
    say(f"{'bytes':<6} {'client':<22} {'how':<22} {'records/CPU s':>14} {'records/s':>12}")
    for found in clients.measure():
        rows.append(found._asdict())
        say(
            f"{found.record_bytes:<6} {found.client:<22} {found.how:<22} "
            f"{found.records_per_cpu_second:>14,.0f} {found.records_per_second:>12,.0f}"
        )
    for what, target, ratio, met in clients.against_targets(rows):
        say(f"{what}: {ratio:.2f} (target {target}){'' if met else ', MISSED'}")


def run_latency(results: dict[str, Any]) -> None:
    """Measure produce-to-ack latency in an open loop."""
    rows = results["latency"] = []
    with LocalCluster(brokers=3) as cluster:
        for replication_factor, acks in ((1, 1), (3, -1)):
            found = latency.measure(cluster, replication_factor, acks)
            rows.append({"rf": replication_factor, "acks": acks, **found._asdict()})
            say(
                f"RF {replication_factor} acks {acks:>2} at {found.rate}/s: p50 {found.p50} ms, "
                f"p99 {found.p99} ms, p99.9 {found.p999} ms, max {found.most} ms"
            )


def run_startup(results: dict[str, Any]) -> None:
    """Measure start-up."""
    found = startup.measure()
    results["startup"] = found._asdict()
    for name, seconds in found._asdict().items():
        say(f"{name:<20} {seconds:6.2f} s")


def run_memory(results: dict[str, Any]) -> None:
    """Measure memory."""
    found = memory.measure()
    results["memory"] = found._asdict()
    for name, mib in found.after_ready.items():
        added = found.kib_per_idle_partition[name]
        say(f"{name:<14} PSS {mib:6.1f} MiB after ready, {added:5.2f} KiB per idle partition")


def run_metrics(results: dict[str, Any]) -> None:
    """Measure what metrics cost a broker, and what a scrape of many partitions does."""
    costs, scraped = metrics.compare(), metrics.scrape()
    results["metrics"] = {
        "costs": [cost._asdict() for cost in costs],
        "scrape": scraped._asdict(),
    }
    for cost in costs:
        both = f"{cost.cpu_us_without:>8.2f} us/req, with metrics {cost.cpu_us_with:>8.2f}"
        say(f"{cost.case:<46} {both} {cost.ratio:>6.3f}")
    say(
        f"scrape of {scraped.partitions:,} partitions, {scraped.megabytes:.1f} MB: "
        f"{scraped.cpu_ms:.1f} ms of CPU, the first {scraped.first_cpu_ms:.1f}; longest wait of a "
        f"request {scraped.longest_wait_ms:.1f} ms, {scraped.longest_wait_idle_ms:.1f} without"
    )


def run_seal(results: dict[str, Any]) -> None:
    """Measure what a sealed control plane costs."""
    costs, handshake_us = seal.measure(), seal.handshake_us()
    results["seal"] = {
        "costs": [cost._asdict() for cost in costs],
        "handshake_us": handshake_us,
    }
    for line in seal.section(results):
        say(line)


def run_tls(results: dict[str, Any]) -> None:
    """Measure what TLS leaves of the throughput, case by case."""
    rows = results["tls"] = []
    say(" | ".join(tls.HEADER))
    for found in tls.measure():
        rows.append(found._asdict())
        say(" | ".join(tls.row(rows[-1])))
    for what, target, ratio, met in tls.checks(results):
        say(f"{what}: {ratio:.2f} (target {target}){'' if met else ', MISSED'}")


def run_groups(results: dict[str, Any]) -> None:
    """Measure what consumer groups cost."""
    found = groups.measure()
    results["groups"] = found._asdict()
    busy = ", ".join(f"{name} {share:.0%}" for name, share in found.busy.items())
    say(f"{found.commits_per_second:,.0f} commits/s, p99 {found.commit_p99_ms:.1f} ms: {busy} busy")
    say(
        f"{groups.MEMBERS} members, {groups.PARTITIONS} partitions: {found.rebalance_seconds:.2f} s"
    )
    for name, mib in found.memory_after.items():
        say(f"{name} PSS {found.memory_before[name]:.1f} MiB before, {mib:.1f} MiB after")


def run_flush(results: dict[str, Any]) -> None:
    """Measure flush.policy=group against none."""
    rows = results["flush"] = []
    say(f"{'RF acks case':<30} {'none req/s':>11} {'group req/s':>11} {'ratio':>6}")
    with LocalCluster(brokers=3) as cluster:
        for replication_factor, acks in ((1, 1), (3, -1)):
            for case in flush.CASES:
                found = flush.measure_case(cluster, case, replication_factor, acks)
                rows.append(
                    {
                        "case": found.case,
                        "replication_factor": replication_factor,
                        "acks": acks,
                        "none": vars_of(found.none),
                        "group": vars_of(found.group),
                        "ratio": found.ratio,
                    }
                )
                say(
                    f"{replication_factor}  {acks:>3}  {case.name:<22} "
                    f"{found.none.requests_per_second:>11,.0f} "
                    f"{found.group.requests_per_second:>11,.0f} {found.ratio:>6.2f}"
                )


def run_failover(results: dict[str, Any]) -> None:
    """Measure the gaps in acknowledged writes around every kind of event."""
    rows = results["failover"] = []
    for event in failover.EVENTS:
        found = failover.measure(event).summary()
        rows.append(found)
        spreads = (f"{k} p50 {v['p50']} max {v['max']}" for k in KINDS if (v := found[k]))
        say(
            f"{event:<34} {found['trials']} trials, ms: {'; '.join(spreads)}; "
            f"{found['failed_sends']} sends failed, {found['lost']} lost"
        )


def run_catch_up(results: dict[str, Any]) -> None:
    """Measure a follower's return."""
    found = catch_up.measure()
    results["catch_up"] = found._asdict()
    say(
        f"{found.megabytes} MB in {found.seconds} s: {found.megabytes_per_second} MB/s; foreground "
        f"p99 {found.p99_ms_before} ms before, {found.p99_ms_meanwhile} ms meanwhile"
    )


def run_false_failovers(results: dict[str, Any]) -> None:
    """Count failovers while all cores are busy and nothing dies."""
    found = false_failovers.measure()
    results["false_failovers"] = found._asdict()
    say(
        f"{found.seconds:.0f} s busy: {found.fenced} fenced, {found.leader_changes} leaders "
        f"and {found.controller_changes} controllers changed, longest gap {found.longest_gap_ms} ms"
    )


def run_spark(results: dict[str, Any]) -> None:
    """Measure the Spark source and sink."""
    results["spark"] = spark.measure(results["stream_seconds"])
    for line in spark.say(results["spark"]):
        say(line)


def run_host(results: dict[str, Any]) -> None:
    """Measure the brokers of all cores beside one."""
    rows = results["host"] = []
    for taken in host.measure():
        rows.append(taken._asdict())
        say(
            f"{taken.case:<40} one {taken.one:>9,.0f} req/s, {taken.brokers} brokers "
            f"{taken.all:>9,.0f}: {taken.ratio:.2f}"
        )


def run_delay(results: dict[str, Any]) -> None:
    """Measure delay topics: lateness, a backlog, and what waiting costs."""
    results["delay"] = delay.measure()
    for line in delay.section(results):
        say(line)


def run_console(results: dict[str, Any]) -> None:
    """Measure the console's pages, and what it asks of brokers."""
    found = console.measure()
    results["console"] = {
        "pages": [page._asdict() for page in found.pages],
        "tabs": [tab._asdict() for tab in found.tabs],
        "scans": [one._asdict() for one in found.scans],
        "cancelled_ms": found.cancelled_ms,
    }
    for line in console.section(results):
        say(line)


def run_rest(results: dict[str, Any]) -> None:
    """Measure records written through the REST proxy."""
    results["rest"] = rest.measure()._asdict()
    for line in rest.section(results):
        say(line)


def run_connect(results: dict[str, Any]) -> None:
    """Measure what a Connect worker moves, takes and waits for."""
    results["connect"] = connect.measure()._asdict()
    for line in connect.section(results):
        say(line)


SECTIONS: dict[str, Section] = {
    "ceilings": run_ceilings,
    "produce": run_produce,
    "validation": run_validation,
    "trace": run_trace,
    "authorizer": run_authorizer,
    "confluent": run_confluent,
    "consume": run_consume,
    "clients": run_clients,
    "latency": run_latency,
    "startup": run_startup,
    "memory": run_memory,
    "metrics": run_metrics,
    "seal": run_seal,
    "tls": run_tls,
    "groups": run_groups,
    "flush": run_flush,
    "failover": run_failover,
    "catch_up": run_catch_up,
    "false_failovers": run_false_failovers,
    "spark": run_spark,
    "delay": run_delay,
    "console": run_console,
    "rest": run_rest,
    "connect": run_connect,
    "host": run_host,
}


@click.command(help=__doc__)
@click.argument("sections", nargs=-1, type=click.Choice(list(SECTIONS)))
@click.option(
    "--stream-seconds",
    default=spark.STREAM_SECONDS,
    help="How long the spark section watches memory.",
    show_default=True,
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench-results"))
def main(sections: tuple[str, ...], stream_seconds: float, out: Path) -> None:
    """Run sections and write the results."""
    here = machine()
    results: dict[str, Any] = {
        "machine": here._asdict(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES},
        "stream_seconds": stream_seconds,
    }
    say(f"commit {here.commit}, {here.cores} cores of {here.cpu}, Python {here.python}")
    for name in sections or SECTIONS:
        say(f"\n== {name}")
        SECTIONS[name](results)
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{here.commit}.json"
    path.write_text(json.dumps(results, indent=1) + "\n")
    say(f"\nresults in {path}")


if __name__ == "__main__":
    main()
