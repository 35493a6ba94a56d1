"""A daemon's log: its formats, its levels, its file."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from minikafka.runtime.errors import ConfigError
from minikafka.runtime.log_levels import LogLevels
from minikafka.runtime.log_output import LogSettings, OneLine, OneObject, set_up_logging

USUAL = LogSettings((), "text", None, 1 << 20, 3)
LOUD = "tests.loud"


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    root.handlers.clear()
    logging.getLogger(LOUD)
    yield
    for handler in root.handlers:
        handler.close()
    root.level, root.handlers[:] = before
    logging.getLogger(LOUD).setLevel(logging.NOTSET)


def record(
    text: str = "moved %d\n\u2028of it", error: Exception | None = None
) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("a.b", logging.WARNING, "f.py", 1, text, (7,), info)
    made.created = 1_600_000_000.0625
    return made


def test_json_is_one_object_a_line() -> None:
    line = OneObject("broker-1").format(record())
    assert len(line.splitlines()) == 1
    assert json.loads(line) == {
        "ts": "2020-09-13T12:26:40.062Z",
        "level": "WARNING",
        "logger": "a.b",
        "node": "broker-1",
        "message": "moved 7\n\u2028of it",
    }


@pytest.mark.parametrize("formatter", [OneLine(), OneObject("n")])
def test_a_traceback_stays_in_the_line(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("planted")
    except ValueError as error:
        line = formatter.format(record("moved %d", error))
    assert "\n" not in line
    assert "Traceback (most recent call last)" in line
    assert "ValueError: planted" in line


def test_the_file_is_rotated_by_size_and_so_many_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "broker.log"
    settings = replace(USUAL, log_file=str(path), log_file_bytes=1024, log_file_count=2)
    set_up_logging("broker-1", settings)
    for number in range(100):
        logging.getLogger(LOUD).info("line %d %s", number, "x" * 60)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["broker.log", "broker.log.1", "broker.log.2"]
    assert all(each.stat().st_size <= 1024 for each in tmp_path.iterdir())
    assert "line 99 " in path.read_text().splitlines()[-1]


def test_levels_hold_everywhere_or_in_one_logger(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging("broker-1", replace(USUAL, log_level=("warn", f"{LOUD}=TRACE")))
    logging.getLogger("tests.quiet").info("unsaid")
    logging.getLogger(LOUD).log(5, "said")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f" TRACE {LOUD}: said")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (replace(USUAL, log_level=("LOUD",)), "--log-level=LOUD: levels are TRACE, DEBUG, INFO"),
        (replace(USUAL, log_level=("tests.lod=INFO",)), "no logger tests.lod; did you mean"),
        (replace(USUAL, log_level=("=INFO",)), "no logger "),
        (replace(USUAL, log_file="/nowhere/at/all"), "--log-file=/nowhere/at/all: No such file"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(settings: LogSettings, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        set_up_logging("broker-1", settings)


def test_a_level_between_those_of_kafka_is_told_as_the_louder_one() -> None:
    manager = logging.Manager(logging.RootLogger(logging.INFO))
    manager.getLogger("a").setLevel(35)
    manager.getLogger("b").setLevel(1)
    assert LogLevels(manager).in_force() == {"a": "WARN", "b": "TRACE", "root": "INFO"}
