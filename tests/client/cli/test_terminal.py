"""Colours and progress bars: for a terminal only."""

import io
import sys

import pytest

from minikafka.client.cli.terminal import progress, shows_colours


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_only_a_terminal_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert shows_colours(Terminal())
    assert not shows_colours(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not shows_colours(Terminal())


@pytest.mark.parametrize(
    ("stream", "count", "is_shown"),
    [(Terminal, 4, True), (Terminal, 0, False), (io.StringIO, 4, False)],
)
def test_a_bar_is_for_a_terminal_and_for_something_to_do(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], count: int, is_shown: bool
) -> None:
    errors = stream()
    monkeypatch.setattr(sys, "stderr", errors)
    with progress(count, "partitions") as tell:
        tell(1)
        tell(count)
    assert ("partitions" in errors.getvalue()) == is_shown
    assert ("4/4" in errors.getvalue()) == is_shown
