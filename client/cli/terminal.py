"""Colours and progress bars, which only a terminal gets, so that redirected output stays plain."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

import click


def shows_colours(stream: TextIO) -> bool:
    """True if the stream is a terminal and NO_COLOR is not set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


@contextmanager
def progress(count: int, noun: str) -> Iterator[Callable[[int], None]]:
    """Context manager that shows on standard error how many of `count` things are done.

    It gives a function to call with the number that is done so far. Nothing is shown if `count` is
    0, or if standard error is no terminal.
    """
    if not count or not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=count, label=noun, file=sys.stderr, show_pos=True) as bar:
        yield lambda done: bar.update(done - bar.pos)
