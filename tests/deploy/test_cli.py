import subprocess
import sys

import pytest

from minikafka.deploy.cli import COMMANDS
from minikafka.protocol import record_backend


def minikafka(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from minikafka.deploy.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
    )


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys\nfrom minikafka.deploy.cli import minikafka\n"
        "minikafka.main(['--help'], standalone_mode=False)\n"
        "print(sorted(m for m in sys.modules if m.startswith('minikafka.') or m in "
        "('asyncio', 'uvloop')))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    *text, modules = out.splitlines()
    assert "client" not in modules
    assert "asyncio" not in modules
    assert "uvloop" not in modules
    for command in COMMANDS:
        assert any(line.split()[:1] == [command] for line in text)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples(command: str) -> None:
    done = minikafka(command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"\n  minikafka {command}" in done.stdout


def test_version() -> None:
    said = minikafka("--version").stdout
    assert said.startswith("minikafka, version 0.")
    assert said.endswith(f", record codec: {record_backend.NAME}\n")


def test_the_record_codec_in_python_can_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINIKAFKA_RECORDS", "python")
    assert minikafka("--version").stdout.endswith("record codec: python\n")
    monkeypatch.setenv("MINIKAFKA_RECORDS", "fortran")
    assert "MINIKAFKA_RECORDS" in minikafka("--version").stderr


def test_an_unknown_command_is_one_line() -> None:
    done = minikafka("tpics")
    assert done.returncode == 2
    assert done.stderr == "minikafka: No such command 'tpics' (see minikafka --help)\n"


def test_a_closed_pipe_is_no_traceback() -> None:
    code = "from minikafka.deploy.cli import main; main()"
    command = f"{sys.executable} -c '{code}' --help | true"
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True).stderr == ""
