"""Manual pages of the programs, from the declarations of their commands.

A command of `minikafka` has a page of its own, minikafka-NAME(1), with those of its groups in it.
Source: man(7), groff_man(7).
"""

from collections.abc import Iterator
from inspect import cleandoc
from pathlib import PurePosixPath
from typing import Final

import click

from ...broker.__main__ import main as broker
from ...controller.__main__ import main as controller
from ...runtime.version import VERSION
from ..cli import COMMANDS, SECTIONS, minikafka

EXIT_STATUS: Final = (
    ("0", "Success; of a daemon a clean stop."),
    ("1", "A failure."),
    ("2", "Wrong arguments or settings."),
)
_VERBATIM: Final = "\b"
"""The mark of a paragraph of a command's help that keeps its lines, because it has examples."""


def files() -> Iterator[tuple[PurePosixPath, str]]:
    """Yield each page's name and its text."""
    yield PurePosixPath("minikafka.1"), _overview()
    for daemon in (broker, controller):
        name = daemon.name or ""
        summary = (daemon.help or "").partition(":")[0]
        yield (
            PurePosixPath(f"{name}.1"),
            _page(name, summary, click.Context(daemon, info_name=name)),
        )
    root = click.Context(minikafka, info_name="minikafka")
    for name, summary in COMMANDS.items():
        command = minikafka.get_command(root, name)
        assert command is not None
        context = click.Context(command, parent=root, info_name=name)
        yield PurePosixPath(f"minikafka-{name}.1"), _page(f"minikafka-{name}", summary, context)


def _overview() -> str:
    context = click.Context(minikafka, info_name="minikafka")
    lines = [*_head("minikafka", "a Kafka-compatible, replicated log cluster")]
    lines += [*_synopsis(context), ".SH DESCRIPTION", *_paragraphs(minikafka.help or "")]
    for title, commands in SECTIONS.items():
        lines.append(f'.SH "{_text(title).upper()}"')
        for name, summary in commands.items():
            lines += [".TP", f".BR minikafka\\-{_text(name)} (1)", _text(summary)]
    return _joined([*lines, *_options(context), *_foot()])


def _page(name: str, summary: str, context: click.Context) -> str:
    lines = [*_head(name, summary.rstrip(".")), *_synopsis(context), ".SH DESCRIPTION"]
    lines += [*_paragraphs(context.command.help or ""), *_options(context)]
    if isinstance(context.command, click.Group):
        lines.append(".SH COMMANDS")
        for part, command in context.command.commands.items():
            inner = click.Context(command, parent=context, info_name=part)
            usage = " ".join(command.collect_usage_pieces(inner))
            lines += [f'.SS "{_text(part)} {_text(usage)}"', *_paragraphs(command.help or "")]
            lines += _described(inner)
    return _joined([*lines, *_foot()])


def _head(name: str, summary: str) -> Iterator[str]:
    yield f'.TH "{_text(name).upper()}" 1 "" "minikafka {VERSION}" "minikafka"'
    yield from (".SH NAME", f"{_text(name)} \\- {_text(summary)}")


def _synopsis(context: click.Context) -> Iterator[str]:
    pieces = " ".join(context.command.collect_usage_pieces(context))
    yield from (".SH SYNOPSIS", f'.B "{_text(context.command_path)}"', _text(pieces))


def _options(context: click.Context) -> Iterator[str]:
    yield ".SH OPTIONS"
    yield from _described(context)


def _described(context: click.Context) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield from (".TP", f'.B "{_text(record[0])}"', _text(record[1]) or "\\&")


def _foot() -> Iterator[str]:
    yield '.SH "EXIT STATUS"'
    for status, meaning in EXIT_STATUS:
        yield from (".TP", f".B {status}", meaning)
    yield from ('.SH "SEE ALSO"', ".BR minikafka (1),", ".BR minikafka\\-broker (1),")
    yield ".BR minikafka\\-controller (1)"


def _paragraphs(help_text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; examples keep their lines."""
    for paragraph in cleandoc(help_text).split("\n\n"):
        first, *rest = paragraph.splitlines()
        if first == _VERBATIM:
            yield from (".PP", ".RS 4", ".nf", *map(_text, rest), ".fi", ".RE")
        else:
            yield from (".PP", _text(" ".join(paragraph.split())))


def _text(plain: str) -> str:
    """Return the text so that man shows each character as it is, also at the start of a line."""
    escaped = plain.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
