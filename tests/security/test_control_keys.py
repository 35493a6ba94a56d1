"""The file of the cluster's key, and the settings that ask for it."""

import logging
from base64 import b64encode
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from minikafka.protocol.control.messages import Endpoint
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import ConfigError
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.control_keys import ControlKeys
from minikafka.security.control_settings import ControlSettings, ControlTlsConfig

FIRST, SECOND = (b64encode(bytes([each]) * 32).decode() for each in (1, 2))


@pytest.fixture
def runtime() -> Iterator[SystemRuntime]:
    made = SystemRuntime("test")
    yield made
    made.close()


def check_control(security: str | None, path: str | None, listeners: Sequence[Endpoint]) -> None:
    ControlSettings(security, path, from_mapping(ControlTlsConfig, {})).check(listeners)


def written(path: Path, *lines: str, mode: int = 0o600) -> str:
    path.write_text("\n".join(lines))
    path.chmod(mode)
    return str(path)


LOOPBACK = (Endpoint("A", "127.0.0.1", 1), Endpoint("B", "::1", 1), Endpoint("C", "localhost", 1))


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", "h"])
def test_without_a_key_a_daemon_listens_on_loopback_alone(host: str) -> None:
    everywhere = (*LOOPBACK, Endpoint("OUTSIDE", host, 9092))
    check_control(None, None, LOOPBACK)
    check_control("none", None, everywhere)
    with pytest.raises(ConfigError) as refused:
        check_control(None, None, everywhere)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"control.psk.file: is required to listen at OUTSIDE://{host}:9092")
    assert "minikafka generate key" in line
    assert "control.security=none" in line


def test_psk_needs_a_key_wherever_it_listens() -> None:
    with pytest.raises(ConfigError, match=r"control\.security=psk: needs control\.psk\.file"):
        check_control("psk", None, LOOPBACK)


@pytest.mark.parametrize("security", ["psk", "none", None])
def test_settings_with_a_key_are_fine(security: str | None) -> None:
    check_control(security, "a file", (Endpoint("OUTSIDE", "", 9092),))


def test_no_file_no_keys(runtime: SystemRuntime) -> None:
    assert ControlKeys.open(runtime, None, None) is None


@pytest.mark.parametrize(
    ("security", "is_required"), [("psk", True), (None, True), ("none", False)]
)
def test_a_key_is_required_of_others_unless_none_is_written(
    runtime: SystemRuntime, tmp_path: Path, security: str | None, is_required: bool
) -> None:
    keys = ControlKeys.open(runtime, security, written(tmp_path / "key", FIRST))
    assert keys is not None
    assert keys.is_required is is_required


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o666, 0o644])
def test_a_file_that_the_world_can_read_is_refused(
    runtime: SystemRuntime, tmp_path: Path, mode: int
) -> None:
    path = written(tmp_path / "key", FIRST, mode=mode)
    with pytest.raises(ConfigError, match=rf"everybody may read .*mode {mode:04o}.*chmod 600"):
        ControlKeys.open(runtime, None, path)


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600, 0o640])
def test_a_file_of_the_owner_and_its_group_is_read(
    runtime: SystemRuntime, tmp_path: Path, mode: int
) -> None:
    assert ControlKeys.open(runtime, None, written(tmp_path / "key", FIRST, mode=mode))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "0 keys"),
        (b"\xff" * 40, "not text"),
        (b"x" * 5000, "bytes or more"),
        (b"short", "line 1"),
    ],
)
def test_a_file_without_a_key_is_refused(
    runtime: SystemRuntime, tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=f"control.psk.file={path}: .*{why}"):
        ControlKeys.open(runtime, None, str(path))


def test_a_file_that_is_not_there_is_refused(runtime: SystemRuntime, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        ControlKeys.open(runtime, None, str(tmp_path / "key"))


def agree(one: ControlKeys, other: ControlKeys) -> bool:
    return other.accept(one.offering().offer) is not None


def test_keys_change_without_a_restart(runtime: SystemRuntime, tmp_path: Path) -> None:
    """Each file changes at another time; at any moment two nodes have a key in common."""
    paths = [tmp_path / name for name in ("one", "two")]
    nodes = []
    for path in paths:
        keys = ControlKeys.open(runtime, "psk", written(path, FIRST))
        assert keys is not None
        nodes.append(keys)
    for lines in ((FIRST, SECOND), (SECOND,)):
        for path in paths:
            written(path, *lines)
            assert agree(*nodes)
            assert agree(*reversed(nodes))
    written(paths[0], FIRST)
    assert not agree(*nodes)


def test_a_file_that_has_become_unreadable_is_reported_once_and_its_keys_are_used_on(
    runtime: SystemRuntime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = ControlKeys.open(runtime, None, written(tmp_path / "key", FIRST))
    assert keys is not None
    written(tmp_path / "key", "damaged")
    for _ in range(3):
        assert agree(keys, keys)
    errors = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 1
    assert "damaged" not in errors[0].getMessage()
    (tmp_path / "key").unlink()
    assert agree(keys, keys)
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 2
