"""Prints the progress of the example, at least every few seconds."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import click

SILENT_SECONDS = 5.0


class Progress:
    """Prints lines to the terminal, each with the time since the start."""

    def __init__(self) -> None:
        self._start = self._told = time.monotonic()
        # A copy, because standard output itself is redirected while Spark starts.
        self._output = os.fdopen(os.dup(sys.stdout.fileno()), "w")

    def tell(self, text: str) -> None:
        """Write one line with the seconds since the start."""
        self._told = time.monotonic()
        click.echo(f"[{self._told - self._start:6.1f} s] {text}", file=self._output)

    def close(self) -> None:
        """Close the copy of standard output."""
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def tell_if_silent(self, text: Callable[[], str]) -> None:
        """Write one line if there was none for SILENT_SECONDS."""
        if time.monotonic() - self._told > SILENT_SECONDS:
            self.tell(f"... {text()}")

    @contextmanager
    def during(self, text: Callable[[], str]) -> Iterator[None]:
        """Write a line every few seconds while the block waits for something."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(SILENT_SECONDS / 5):
                self.tell_if_silent(text)

        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
