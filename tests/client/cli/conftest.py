import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from minikafka.deploy.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The whole command line in this process: arguments in, exit code and texts out."""

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["minikafka", *map(str, args)])
        with pytest.raises(SystemExit) as exit_:
            main()
        code = exit_.value.code
        assert isinstance(code, int)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call
