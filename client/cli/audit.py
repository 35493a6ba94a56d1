"""`minikafka audit`: what changed in the cluster, who asked, and whether nothing was altered."""

import json
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.audit import read_event
from ...runtime.errors import ConfigError
from .common import F, administer, bootstrap_server, command_config, options
from .delay import as_json, time_ms
from .offset_resets import datetime_ms

if TYPE_CHECKING:
    from ..consumer.audit_log import AuditRecord, Verified

COMPLAINT = "Error while executing audit command"
DAY_MS = 86_400_000
CHANGES_SHOWN = 5
"""The most changes of one request that are printed for people."""


@click.group("audit")
def audit() -> None:
    """Tell what changed in a cluster, and who asked; check that nothing was altered since.

    \b
    minikafka audit tail --bootstrap-server localhost:9092
    minikafka audit search --principal User:alice --action DeleteTopics \\
        --bootstrap-server localhost:9092
    minikafka audit verify --bootstrap-server localhost:9092
    """


def where(command: F) -> F:
    """Add what names the cluster."""
    return options(bootstrap_server, command_config(), as_json)(command)


@audit.command("tail")
@where
@click.option("--lines", type=click.IntRange(min=0), default=20, show_default=True)
@click.option("--follow", is_flag=True, help="Go on with what is written later.")
def tail_command(
    bootstrap: str, command_config: Path | None, is_json: bool, lines: int, follow: bool
) -> None:
    """Print the newest records."""

    async def act(admin: Any) -> int:
        from ..consumer.audit_log import AuditLog

        if not lines and not follow:
            return 0
        log = AuditLog(admin)
        async with aclosing(log.read(last=lines, follow=follow)) as found:
            async for record in found:
                print("\n".join(lines_of(record, is_json=is_json)), flush=True)
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)


@audit.command("search")
@where
@click.option("--principal", metavar="TYPE:NAME", help="Who asked.")
@click.option("--action", metavar="API", help="What was asked, such as DeleteTopics.")
@click.option("--resource", metavar="KIND/NAME", help="What it was asked of, such as topic/orders.")
@click.option("--since", metavar="TIME", help="From this time on: YYYY-MM-DDTHH:mm:SS.sss, or ms.")
@click.option("--until", metavar="TIME", help="Up to this time.")
def search_command(
    bootstrap: str,
    command_config: Path | None,
    is_json: bool,
    since: str | None,
    until: str | None,
    **wanted: str | None,
) -> None:
    """Print the records that meet every condition."""
    since_ms, until_ms = time_ms(since, "--since"), time_ms(until, "--until")

    async def act(admin: Any) -> int:
        from ..consumer.audit_log import AuditLog

        # A record is written after its event, by another clock: a day is more than they differ.
        written_ms = None if since_ms is None else max(0, since_ms - DAY_MS)
        async with aclosing(AuditLog(admin).read(since_ms=written_ms)) as found:
            async for record in found:
                if meets(record.value, (since_ms, until_ms), wanted):
                    print("\n".join(lines_of(record, is_json=is_json)), flush=True)
        return 0

    administer(act, COMPLAINT, bootstrap, command_config)


def meets(
    value: bytes | None, times: tuple[int | None, int | None], wanted: dict[str, str | None]
) -> bool:
    """Return whether a record is an event that meets every condition."""
    event = read_event(value)
    if event is None:
        return False
    try:
        at_ms = datetime_ms(str(event.get("time")))
    except ConfigError:
        return False
    since_ms, until_ms = times
    if not (since_ms or 0) <= at_ms <= (at_ms if until_ms is None else until_ms):
        return False
    data = event["data"]
    resources = [data.get("resource"), *(each.get("resource") for each in _changes(data))]
    has = {
        "principal": wanted["principal"] in (None, data.get("principal")),
        "action": wanted["action"] in (None, data.get("action")),
        "resource": wanted["resource"] in (None, *resources),
    }
    return all(has.values())


@audit.command("verify")
@where
@click.option(
    "--known",
    metavar="OFFSET:SHA256",
    multiple=True,
    help="A record as an earlier run told it; several: each.",
)
def verify_command(
    bootstrap: str, command_config: Path | None, is_json: bool, known: tuple[str, ...]
) -> None:
    """Check that no record was changed, taken out or put in; exit code 1 if one was.

    Keep the SHA-256 of the last record elsewhere: with `--known` a later run also finds it if
    somebody has computed the whole chain anew, or cut its end.
    """
    noted = [_known(each) for each in known]

    async def act(admin: Any) -> int:
        from ..consumer.audit_log import AuditLog

        verified = await AuditLog(admin).verify(noted)
        print("\n".join(report_of(verified, is_json=is_json)))
        return 1 if verified.faults else 0

    administer(act, COMPLAINT, bootstrap, command_config)


def _known(text: str) -> tuple[int, str]:
    offset, _, digest = text.partition(":")
    if not offset.isdecimal() or len(digest) != 64:
        raise click.UsageError(f"--known {text}: needs OFFSET:SHA256, as verify prints it")
    return int(offset), digest.lower()


def report_of(verified: "Verified", *, is_json: bool) -> list[str]:
    """Return the lines of `verify`."""
    first, end, head = verified.first, verified.end, verified.head
    if is_json:
        document = {
            "first_offset": first,
            "end_offset": end,
            "head": None if head is None else f"{end - 1}:{head.digest}",
            "faults": list(verified.faults),
            "gaps": [list(each) for each in verified.gaps],
        }
        return [json.dumps(document)]
    if head is None:
        return ["There is no record.", *verified.faults]
    lines = [f"Wrong: {each}" for each in verified.faults]
    lines += [f"Never written: requests {one} to {last}" for one, last in verified.gaps]
    told = "The chain is whole" if not verified.faults else "The chain is broken"
    return [
        *lines,
        f"{told}: {end - first} records, offsets {first} to {end - 1}.",
        f"Last record: {end - 1}:{head.digest}",
    ]


def lines_of(record: "AuditRecord", *, is_json: bool) -> list[str]:
    """Return the lines of one record."""
    event = read_event(record.value)
    if is_json:
        if event is None:
            return [json.dumps({"offset": record.offset, "data": None})]
        return [json.dumps({"offset": record.offset, **event})]
    if event is None:
        return [f"{record.offset:>6}  is no record of the audit"]
    data = event["data"]
    who = data.get("principal") or "a broker"
    at = f" at {data['host']}" if data.get("host") else ""
    what = f"{data.get('action')}: {data.get('result')} {event.get('subject')}"
    lines = [_printable(f"{record.offset:>6}  {event.get('time')}  {who}{at}  {what}")]
    changes = _changes(data)
    for change in changes[:CHANGES_SHOWN]:
        values = f"{_value(change.get('before'))} -> {_value(change.get('after'))}"
        text = f"{change.get('resource')} {change.get('aspect')}: {values}"
        lines.append(_printable(f"{'':>8}{text}"))
    more = len(changes[CHANGES_SHOWN:])
    more += left_out if isinstance(left_out := data.get("left_out"), int) else 0
    return [*lines, f"{'':>8}{more} more"] if more else lines


def _changes(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = data.get("changes")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _value(value: object) -> str:
    return "-" if value is None else str(value)


def _printable(text: str) -> str:
    """Return a text without characters that a terminal would obey."""
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)
