"""What the commands share."""

import gc
import signal
import subprocess
import sys
from typing import Any

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


@pytest.mark.parametrize("ears", [signal.SIG_IGN, signal.default_int_handler], ids=["deaf", "hear"])
def test_sigterm_cancels_the_command_alone_so_that_it_can_close_what_it_opened(ears: Any) -> None:
    """Wherever the loop is when it comes: here in a callback."""
    code = """if True:
        import asyncio, os, signal
        import click
        from minikafka.client.cli.common import run

        async def main():
            other = asyncio.ensure_future(asyncio.Event().wait())
            asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)
                print("the other task", "has ended" if other.done() else "goes on")

        try:
            run(main())
        except click.exceptions.Exit as end:
            print("exit code", end.exit_code)
    """
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, ears),
    )
    assert (done.stdout, done.stderr) == ("the other task goes on\nexit code 130\n", "")
