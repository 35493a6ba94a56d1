"""Run every example on one cluster and one Spark session.

python -m minikafka.spark.examples [--bootstrap HOST:PORT] [NAME ...]
"""

import sys

import click

from . import dead_letters, enrichment, parquet, refused_rows, sessions, windows
from .harness import run_all

EXAMPLES = {
    "dead_letters": dead_letters.verify,
    "refused_rows": refused_rows.verify,
    "windows": windows.verify,
    "sessions": sessions.verify,
    "parquet": parquet.verify,
    "enrichment": enrichment.verify,
}


@click.command(help=__doc__)
@click.option(
    "--bootstrap",
    metavar="HOST:PORT",
    help="Brokers of a running cluster. [default: start a cluster for the example]",
)
@click.argument("names", nargs=-1, type=click.Choice(list(EXAMPLES)))
def main(bootstrap: str | None, names: tuple[str, ...]) -> None:
    """Exit with 0 only if every check passed."""
    wanted = [(name, EXAMPLES[name]) for name in names or EXAMPLES]
    sys.exit(1 if run_all(wanted, bootstrap) else 0)


if __name__ == "__main__":
    main()
