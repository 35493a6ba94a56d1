"""`minikafka dump-log`: print log segments and the files beside them, without a cluster.

Owns the flags, and chooses by a file's name how to print it; `dump_segment` and `dump_index` print.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from .dump_index import (
    check_index,
    dump_aborted_transactions,
    dump_checkpoint,
    dump_index,
    dump_producer_snapshot,
    dump_time_index,
)
from .dump_segment import (
    Decoder,
    Problems,
    SegmentOptions,
    decode_metadata,
    decode_text,
    dump_segment,
)

MAX_INT32 = 0x7FFF_FFFF


def _integer(data: bytes) -> str:
    return str(int.from_bytes(data, signed=True))


DECODERS: dict[str, Decoder] = {
    "DefaultDecoder": decode_text,
    "IntegerDecoder": _integer,
    "LongDecoder": _integer,
    "StringDecoder": decode_text,
}
USUAL = "DefaultDecoder"
HELP = ", ".join(DECODERS)


def _decoder(ctx: click.Context, param: click.Parameter, value: str) -> Decoder:
    name = value.rpartition(".")[2]
    if name not in DECODERS:
        raise click.BadParameter(f"{value}: known are {', '.join(DECODERS)}")
    return DECODERS[name]


@click.command("dump-log")
@click.option(
    "--files", required=True, metavar="A.log,B.index,...", help="Files to print, comma-separated."
)
@click.option("--print-data-log", "print_data", is_flag=True, help="Print keys and values too.")
@click.option(
    "--deep-iteration", "deep", is_flag=True, help="Print every record, not just every batch."
)
@click.option(
    "--skip-record-metadata",
    "skip_metadata",
    is_flag=True,
    help="Print only the key and the value of each record.",
)
@click.option(
    "--max-bytes",
    type=click.IntRange(0, MAX_INT32),
    default=MAX_INT32,
    help="The most bytes to read of each segment.",
)
@click.option(
    "--max-message-size",
    type=int,
    default=5 * 1024 * 1024,
    expose_value=False,
    help="Ignored; accepted because Kafka's tool has it.",
)
@click.option(
    "--verify-index-only",
    is_flag=True,
    help="Check indexes against their segments without printing entries.",
)
@click.option(
    "--index-sanity-check",
    is_flag=True,
    help="Check that indexes are consistent, without reading the segments.",
)
@click.option("--key-decoder-class", "decode_key", default=USUAL, callback=_decoder, help=HELP)
@click.option("--value-decoder-class", "decode_value", default=USUAL, callback=_decoder, help=HELP)
@click.option("--cluster-metadata-decoder", is_flag=True, help="Read values as metadata records.")
def dump_log(
    files: str,
    verify_index_only: bool,
    index_sanity_check: bool,
    cluster_metadata_decoder: bool,
    **what: Any,
) -> None:
    """Print segments, indexes, producer snapshots and checkpoints from disk.

    Takes .log .index .timeindex .snapshot .txnindex .checkpoint and *-checkpoint files. Damage and
    contradictions are printed at the end, on standard error; then the exit code is 1.

    \b
    minikafka dump-log --files data/flights-0/00000000000000000000.log --print-data-log
    minikafka dump-log --files data/flights-0/00000000000000000000.index --verify-index-only
    """
    options = SegmentOptions(**what)
    if cluster_metadata_decoder:
        options = replace(options, print_data=True, decode_value=decode_metadata)
    problems = Problems()
    for name in files.split(","):
        path = Path(name)
        if not path.is_file():
            raise click.ClickException(f"{name}: no such file")
        print(f"Dumping {name}")
        try:
            if index_sanity_check and path.suffix in (".index", ".timeindex"):
                lines = check_index(path, problems)
            else:
                lines = _dump(path, options, problems, print_entries=not verify_index_only)
            for line in lines:
                print(line)
        except ValueError:
            raise click.ClickException(f"{name}: a segment is named by its offset") from None
        except OSError as error:
            raise click.ClickException(f"{error.filename or name}: {error.strerror}") from error
    sys.stdout.flush()
    for line in problems.lines():
        print(line, file=sys.stderr)
    if problems:
        raise click.exceptions.Exit(1)


def _dump(
    path: Path, options: SegmentOptions, problems: Problems, *, print_entries: bool
) -> Iterator[str]:
    if path.name.endswith("-checkpoint"):
        return dump_checkpoint(path, problems)
    match path.suffix:
        case ".log" | ".checkpoint":
            return dump_segment(path, options, problems)
        case ".index":
            return dump_index(path, problems, print_entries=print_entries)
        case ".timeindex":
            return dump_time_index(path, problems, print_entries=print_entries)
        case ".snapshot":
            return dump_producer_snapshot(path, problems)
        case ".txnindex":
            return dump_aborted_transactions(path)
    print(f"Ignoring unknown file {path}", file=sys.stderr)
    return iter(())
