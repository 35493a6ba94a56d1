"""What the commands share."""

import gc

import click
import pytest
import uvloop

from minikafka.client.cli.common import INTERRUPTED, run


def test_an_interrupt_before_the_command_has_begun_is_no_warning(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    async def command() -> int:
        raise AssertionError("it was interrupted")

    def interrupted(main: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(uvloop, "run", interrupted)
    with pytest.raises(click.exceptions.Exit) as exit_:
        run(command())
    gc.collect()
    assert exit_.value.exit_code == INTERRUPTED
    assert [str(each.message) for each in recwarn] == []
