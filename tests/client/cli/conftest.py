"""The command line in this process, and the admin in memory that it gets."""

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from minikafka.client.cli.common import BOOTSTRAP_VARIABLE
from minikafka.deploy.cli import main

from .fake_admin import FakeAdmin


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The whole command line in this process: arguments in, exit code and texts out."""

    monkeypatch.delenv(BOOTSTRAP_VARIABLE, raising=False)

    def call(*args: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["minikafka", *map(str, args)])
        with pytest.raises(SystemExit) as exit_:
            main()
        code = exit_.value.code
        assert isinstance(code, int)
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    """What the commands get instead of an admin."""
    fake = FakeAdmin()
    monkeypatch.setattr("minikafka.client.admin.admin.Admin", fake)
    return fake
