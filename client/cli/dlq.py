"""`minikafka dlq`: dead letters are listed, shown, tried again and discarded."""

import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...protocol.records.record_batch import Headers
from .common import F, administer, bootstrap_server, command_config, options, say, table
from .delay import as_json, record, shown

if TYPE_CHECKING:
    from ..consumer.dead_letters import DeadLetters
    from ..consumer.retry_batch import Raw

COMPLAINT = "Error while executing dlq command"
MESSAGE_CHARACTERS = 60


@click.group("dlq")
def dlq() -> None:
    """List dead letters, show one, have them handled again, discard them.

    \b
    minikafka dlq list dlq.billing --bootstrap-server localhost:9092
    minikafka dlq requeue dlq.billing --where 'exception~KeyError' \\
        --bootstrap-server localhost:9092
    minikafka dlq discard dlq.billing --all --bootstrap-server localhost:9092
    """


def where(command: F) -> F:
    """Add what names the cluster, and the topic."""
    return options(click.argument("topic"), bootstrap_server, command_config())(command)


conditions = click.option(
    "--where",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help="Only letters of which FIELD=TEXT, FIELD!=TEXT or FIELD~REGEX holds; several: all hold. "
    "FIELD is topic, partition, offset, group, message, exception, attempts or key.",
)


def selection(command: F) -> F:
    """Add what says which letters are meant."""
    is_all = click.option("--all", "is_all", is_flag=True, help="All letters that are open.")
    one = click.option(
        "--letter", metavar="PARTITION:OFFSET", multiple=True, help="This letter; several: each."
    )
    return options(conditions, one, is_all)(command)


def choice(
    conditions: tuple[str, ...], letters: tuple[str, ...] = (), *, is_all: bool = True
) -> "Callable[[Raw], bool]":
    """Return which letters are meant; raise UsageError if the options do not say."""
    from ..consumer.letter_filter import choice_of

    if not (conditions or letters or is_all):
        raise click.UsageError("needs --where, --letter or --all")
    if is_all and letters:
        raise click.UsageError("needs either --letter or --all")
    try:
        meets = choice_of(conditions)
    except ValueError as error:
        raise click.UsageError(f"--where {error}") from error
    if not letters:
        return meets
    named = dict.fromkeys(_place(each) for each in letters)
    return lambda record: (record.partition, record.offset) in named and meets(record)


def _place(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise click.UsageError(f"--letter {text}: needs PARTITION:OFFSET, such as 0:17")
    return int(partition), int(offset)


@dlq.command("list")
@where
@conditions
@click.option("--settled", "is_settled_too", is_flag=True, help="List what is settled too.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True)
@as_json
def list_command(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    conditions: tuple[str, ...],
    is_settled_too: bool,
    limit: int,
    is_json: bool,
) -> None:
    """List the letters that are neither requeued nor discarded."""
    choose = choice(conditions)

    async def act(letters: "DeadLetters") -> int:
        found: list[Raw] = []
        async with aclosing(letters.read(is_settled_too=is_settled_too)) as all_of_them:
            async for letter in all_of_them:
                if choose(letter):
                    found.append(letter)
                    if len(found) == limit:
                        break
        print("\n".join(list_lines(found, is_json=is_json)))
        return 0

    _with_letters(act, topic, bootstrap, command_config)


def list_lines(found: "list[Raw]", *, is_json: bool) -> list[str]:
    """Return the lines of `list`."""
    from ..consumer.retry_headers import letter_of

    if is_json:
        return [json.dumps(_as_json(each)) for each in found]
    rows = []
    for each in found:
        letter = letter_of(each.headers)
        origin = f"{letter.topic}-{letter.partition}@{letter.offset}" if letter.topic else "-"
        origin = _on_a_line(origin)
        message = _on_a_line(letter.message.partition("\n")[0])
        if len(message) > MESSAGE_CHARACTERS:
            message = message[: MESSAGE_CHARACTERS - 1] + "…"
        place = f"{each.partition}:{each.offset}"
        error = _on_a_line(letter.exception.rpartition(".")[2])
        rows.append(
            [place, shown(each.timestamp_ms), origin, _on_a_line(letter.attempts), error, message]
        )
    return table(["Letter", "Buried", "From", "Attempts", "Exception", "Message"], rows)


def _as_json(record: "Raw") -> dict[str, Any]:
    from ..consumer.retry_headers import letter_of

    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "letter": letter_of(record.headers)._asdict(),
    }


@dlq.command("show")
@where
@record
@as_json
def show(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    partition: int,
    offset: int,
    is_json: bool,
) -> None:
    """Print a letter: its headers, its key and its value."""

    async def act(letters: "DeadLetters") -> int:
        print("\n".join(show_lines(await letters.at(partition, offset), is_json=is_json)))
        return 0

    _with_letters(act, topic, bootstrap, command_config)


def show_lines(record: "Raw", *, is_json: bool) -> list[str]:
    """Return the lines of `show`."""
    from ..consumer.retry_headers import readable

    headers: Headers = record.headers
    if is_json:
        told = {
            **_as_json(record),
            "headers": [[name, readable(name, value)] for name, value in headers],
            "key": _text(record.key),
            "value": _text(record.value),
        }
        return [json.dumps(told)]
    width = max((len(name) for name, _ in headers), default=0)
    lines = [
        f"{_on_a_line(name):<{width}}  {_on_lines(readable(name, value))}"
        for name, value in headers
    ]
    key, value = _on_lines(_text(record.key)), _on_lines(_text(record.value))
    return [*lines, "", f"key: {key}", "value:", value]


def _on_lines(text: str | None) -> str:
    """Return a text without characters that a terminal obeys; null is None."""
    return "\n".join(map(_on_a_line, str(text).split("\n")))


def _on_a_line(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each == "\t" else repr(each)[1:-1] for each in text
    )


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


@dlq.command("requeue")
@where
@selection
@click.option("--to", metavar="TOPIC", help="Write them here; default: back to their group.")
@click.option("--to-origin", is_flag=True, help="Write them to the topics they came from.")
def requeue(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    conditions: tuple[str, ...],
    letter: tuple[str, ...],
    is_all: bool,
    to: str | None,
    to_origin: bool,
) -> None:
    """Have letters handled again, each once, with all their attempts.

    They go to <group>.again, so that only the group that has failed gets them.
    """
    if to is not None and to_origin:
        raise click.UsageError("needs either --to or --to-origin")
    choose = choice(conditions, letter, is_all=is_all)

    async def act(letters: "DeadLetters") -> int:
        from ..consumer.dead_letters import to_group
        from ..consumer.dead_letters import to_origin as origin_of

        target = (lambda _: to) if to is not None else origin_of if to_origin else to_group
        done = await letters.requeue(choose, target)
        print(f"{done.letters} {_letters(done.letters)} requeued.")
        if done.without_value:
            say(f"{done.without_value} left: too large to be kept, they have lost their value")
        return 1 if done.without_value else 0

    _with_letters(act, topic, bootstrap, command_config)


@dlq.command("discard")
@where
@selection
def discard(
    topic: str,
    bootstrap: str,
    command_config: Path | None,
    conditions: tuple[str, ...],
    letter: tuple[str, ...],
    is_all: bool,
) -> None:
    """Take letters off the list; they stay in the topic until its retention removes them."""
    choose = choice(conditions, letter, is_all=is_all)

    async def act(letters: "DeadLetters") -> int:
        done = await letters.discard(choose)
        print(f"{done.letters} {_letters(done.letters)} discarded.")
        return 0

    _with_letters(act, topic, bootstrap, command_config)


def _letters(count: int) -> str:
    return "letter" if count == 1 else "letters"


def _with_letters(
    act: "Callable[[DeadLetters], Awaitable[int]]",
    topic: str,
    bootstrap: str,
    file: Path | None,
) -> None:
    async def with_admin(admin: Any) -> int:
        from ..consumer.dead_letters import DeadLetters

        return await act(DeadLetters(admin, topic))

    administer(with_admin, COMPLAINT, bootstrap, file)
