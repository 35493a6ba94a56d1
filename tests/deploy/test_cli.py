import re
import subprocess
import sys
from pathlib import Path

import pytest

import minikafka as minikafka_package
from minikafka.deploy.cli import COMMANDS, SECTIONS
from minikafka.protocol.records import record_backend


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


def test_help_groups_the_commands() -> None:
    out = minikafka("--help").stdout
    found = dict(re.findall(r"^(\w[^\n]*):\n((?:  .*\n)+)", out, re.MULTILINE))
    found.pop("Options")
    assert list(found) == list(SECTIONS)
    for title, commands in SECTIONS.items():
        listed = " ".join(f"{name} {text}" for name, text in commands.items())
        assert " ".join(found[title].split()) == listed


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o nosort -F _minikafka_completion minikafka"),
        ("zsh", "#compdef minikafka"),
        ("fish", "complete --no-files --command minikafka"),
    ],
)
def test_a_shell_gets_its_script(shell: str, line: str) -> None:
    done = minikafka("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert line in done.stdout
    assert "_MINIKAFKA_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("minikafka verif", ["verifiable-producer", "verifiable-consumer"]),
        ("minikafka topics --under-re", ["--under-replicated-partitions"]),
        ("minikafka leader-election --election-type p", ["preferred"]),
        ("minikafka transactions a", ["abort"]),
        ("minikafka xyzzy", []),
    ],
)
def test_bash_completes_commands_flags_and_values(
    tmp_path: Path, words: str, completed: list[str]
) -> None:
    """With the script that is printed, as bash calls it when Tab is pressed."""
    code = "from minikafka.deploy.cli import main; main()"
    program = tmp_path / "minikafka"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    program.chmod(0o755)
    script = (
        f"{minikafka('completion', 'bash').stdout}\n"
        f"COMP_WORDS=({words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))\n"
        f"_minikafka_completion {program}\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.split() == completed


def test_completing_a_name_imports_no_command() -> None:
    code = (
        "import sys\nfrom minikafka.deploy.cli import minikafka\n"
        "import click\ncontext = click.Context(minikafka)\n"
        "print([item.value for item in minikafka.shell_complete(context, 'to')])\n"
        "print([m for m in sys.modules if m.startswith('minikafka.client')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert out == "['topics']\n[]\n"


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["topic"], "minikafka: No such command 'topic'; did you mean topics? (see"),
        (["xyzzy"], "minikafka: No such command 'xyzzy' (see minikafka --help)"),
        (["transactions", "lsit"], "minikafka transactions: No such command 'lsit'"),
    ],
)
def test_a_mistyped_name_is_one_line_with_the_nearest(arguments: list[str], said: str) -> None:
    done = minikafka(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("group", [[], ["transactions"]])
def test_a_group_alone_prints_its_help_as_it_is(group: list[str]) -> None:
    done = minikafka(*group)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == minikafka(*group, "--help").stdout


@pytest.mark.parametrize(
    "command", ["list", "describe", "describe-producers", "abort", "find-hanging"]
)
def test_the_help_of_a_subcommand_needs_no_cluster(command: str) -> None:
    done = minikafka("transactions", command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Usage: minikafka transactions {command} ")
    flags = {"describe": ["--transactional-id", "t"], "find-hanging": ["--broker-id", "1"]}
    if command in ("list", *flags):
        done = minikafka("transactions", command, *flags.get(command, []))
        assert done.returncode == 2
        missing = "minikafka transactions: Missing option '--bootstrap-server'"
        assert done.stderr == f"{missing} (see minikafka transactions --help)\n"


def test_the_package_is_the_command_too() -> None:
    run = [sys.executable, "-m", "minikafka", "--version"]
    said = subprocess.run(run, capture_output=True, text=True).stdout
    assert said == minikafka("--version").stdout


@pytest.mark.parametrize("program", ["broker", "controller"])
def test_the_daemons_say_what_they_are(program: str) -> None:
    run = [sys.executable, "-m", f"minikafka.{program}"]
    said = subprocess.run([*run, "--version"], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == f"minikafka-{program}, version {minikafka_package.__version__}\n"
    said = subprocess.run([*run, "-h"], capture_output=True, text=True)
    assert said.returncode == 0
    assert "--override" in said.stdout


def test_a_closed_pipe_is_no_traceback() -> None:
    code = "from minikafka.deploy.cli import main; main()"
    command = f"{sys.executable} -c '{code}' --help | true"
    assert subprocess.run(["sh", "-c", command], capture_output=True, text=True).stderr == ""
