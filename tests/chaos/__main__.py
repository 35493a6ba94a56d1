"""Real processes under real faults, in namespaces that nothing leaves.

    python -m tests.chaos                          every fault; writes docs/chaos.md
    python -m tests.chaos kill-leader disk-full    some
    python -m tests.chaos --list

Runs itself anew inside `unshare`: network, mounts and processes are the run's own, and all end
with it, even after kill -9. Needs root. Figures go to chaos-results/*.json.
"""

import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

import click
from bench.meters import machine

from . import needs
from .campaign import Result, run_fault
from .faults import FAULTS, Fault
from .lab import connect_hosts
from .network import Network
from .page import page

INSIDE = "MINIKAFKA_CHAOS_INSIDE"
ALONE = ("unshare", "-n", "-m", "-p", "--fork", "--kill-child", "--mount-proc")
DOCS = Path(__file__).parents[2] / "docs" / "chaos.md"
CANNOT_RUN = 77
"""The exit code if the machine lacks something needed; standard output says what."""


def run_all(faults: list[Fault], kept: Path | None) -> tuple[list[Result], dict[str, str]]:
    """Run faults one after the other; return the results, and why others were skipped."""
    network = Network()
    connect_hosts(network)
    results: list[Result] = []
    skipped: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="minikafka-chaos-") as temporary:
        root = kept or Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        for fault in faults:
            if lacking := needs.missing(fault.needs):
                skipped[fault.name] = f"not on this machine: {', '.join(lacking)}"
                click.echo(f"{fault.name:<36} skipped: {skipped[fault.name]}")
                continue
            result = _run(fault, network, root)
            results.append(result)
            _say(result)
            network.heal()
    return results, skipped


def _run(fault: Fault, network: Network, root: Path) -> Result:
    directory = Path(tempfile.mkdtemp(prefix=f"{fault.name}-", dir=root))
    try:
        return run_fault(fault, network, directory)
    except (RuntimeError, OSError):
        return Result(fault.name, fault.what, problems=[traceback.format_exc()])


def _say(result: Result) -> None:
    gaps = ", ".join(f"{kind} {gap:,.0f} ms" for kind, gap in result.gap_ms.items())
    click.echo(
        f"{result.fault:<36} acknowledged {result.acknowledged:>6,} "
        f"({result.acknowledged_during:,} in {result.during_seconds:.1f} s of fault), "
        f"lost {result.lost}, duplicated {result.duplicated}, other {result.other_anomalies}; "
        f"longest gap {gaps}; well again after {result.recovered_seconds:.1f} s"
    )
    for problem in result.problems:
        click.echo(f"    {problem}")


def run_inside(faults: list[Fault], out: Path, kept: Path | None, docs: bool) -> bool:
    """Run the faults, write the results file and the page; return whether all guarantees held."""
    here = machine()
    results, skipped = run_all(faults, kept)
    found: dict[str, Any] = {
        "machine": here._asdict(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "results": [result.as_json() for result in results],
        "skipped": skipped,
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{here.commit}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    click.echo(f"results in {path}")
    if docs:
        DOCS.write_text(page(found))
        click.echo(f"table in {DOCS}")
    return all(result.is_good for result in results)


@click.command(help=__doc__)
@click.argument("names", nargs=-1, type=click.Choice(list(FAULTS)))
@click.option("--list", "listing", is_flag=True, help="name the faults and do nothing")
@click.option("--out", type=click.Path(path_type=Path), default=Path("chaos-results"))
@click.option("--keep", type=click.Path(path_type=Path), help="keep logs and histories here")
def main(names: tuple[str, ...], listing: bool, out: Path, keep: Path | None) -> None:
    """Run faults inside namespaces of their own."""
    if listing:
        for fault in FAULTS.values():
            click.echo(f"{fault.name:<36} {fault.what}")
        return
    if lacking := needs.missing():
        click.echo(f"cannot run: not on this machine: {', '.join(lacking)}")
        sys.exit(CANNOT_RUN)
    if INSIDE not in os.environ:
        command = [*ALONE, sys.executable, "-m", "tests.chaos", *sys.argv[1:]]
        # In place of this process: whoever kills it kills all there is.
        os.execvpe(command[0], command, {**os.environ, INSIDE: "1"})
    chosen = [FAULTS[name] for name in names or FAULTS]
    sys.exit(0 if run_inside(chosen, out, keep, docs=not names) else 1)


if __name__ == "__main__":
    main()
