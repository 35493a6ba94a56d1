"""Manual pages: one for each program and command, with every flag; groff finds nothing wrong."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from minikafka.broker.__main__ import main as broker
from minikafka.controller.__main__ import main as controller
from minikafka.deploy.cli import COMMANDS, minikafka


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pages")
    done = CliRunner().invoke(minikafka, ["generate", "man", "--output", str(directory)])
    assert (done.exit_code, done.output) == (0, "")
    return directory


def flags(command: click.Command) -> set[str]:
    """The flags of a command, and of the commands in it, but for hidden ones."""
    told = [each for each in command.params if not getattr(each, "hidden", False)]
    own = {flag for each in told for flag in (*each.opts, *each.secondary_opts)}
    inner = command.commands.values() if isinstance(command, click.Group) else ()
    return {flag for flag in own if flag.startswith("-")}.union(*map(flags, inner))


def plain(page: Path) -> str:
    return page.read_text().replace("\\-", "-").replace("\\e", "\\")


def test_each_program_and_command_has_a_page_with_every_flag_and_its_examples(pages: Path) -> None:
    root = click.Context(minikafka)
    expected: dict[str, click.Command] = {"minikafka-broker": broker}
    expected["minikafka-controller"] = controller
    for name in COMMANDS:
        command = minikafka.get_command(root, name)
        assert command is not None
        expected[f"minikafka-{name}"] = command
        assert f"\nminikafka {name}" in plain(pages / f"minikafka-{name}.1")
    for name, command in expected.items():
        words = re.findall(r"(?<![\w-])--?[\w.-]+", plain(pages / f"{name}.1"))
        assert flags(command) <= {*words}, name
    overview = plain(pages / "minikafka.1")
    assert all(f"minikafka-{name} (1)" in overview for name in COMMANDS)
    assert {page.stem for page in pages.iterdir()} == {"minikafka", *expected}


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
def test_groff_finds_nothing_wrong(pages: Path) -> None:
    for page in sorted(pages.iterdir()):
        command = ["groff", "-man", "-Tutf8", "-ww", "-z", str(page)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), page.name
