"""The controller's configuration."""

import pytest

from minikafka.broker.settings import TABLES
from minikafka.broker.topic_defaults import SYNONYMS
from minikafka.controller.config import listener_of, quorum_of, read_config
from minikafka.controller.quorum.voters import QuorumSettings
from minikafka.protocol.control.messages import Endpoint
from minikafka.protocol.control.quorum_messages import VoterKey
from minikafka.runtime.config import settings_of
from minikafka.runtime.errors import ConfigError


def test_a_file_of_a_broker_is_understood_without_a_word() -> None:
    """One file may be shared; what only brokers obey is no mistake."""
    rows = [row for table in TABLES for row in settings_of(table)]
    keys = [key for row in rows for key in (row.key, *row.aliases)]
    keys += [synonym for synonyms in SYNONYMS.values() for synonym in synonyms]
    own = {"listeners", "node.id", "broker.id", "controller.quorum.voters"}
    unknown = []
    for key in keys:
        if key in own:
            continue
        try:
            _, warnings = read_config({"node.id": "1", key: "1"})
        except ConfigError as error:
            if "unknown key" in error.why:
                unknown.append(key)
        else:
            assert warnings == [], key
    assert unknown == []


def test_defaults_protect_data() -> None:
    config, warnings = read_config({"node.id": "1"})
    assert warnings == []
    assert config.default_replication_factor == 3
    assert config.min_insync_replicas == 2
    assert config.defaults.topic_settings["unclean.leader.election.enable"] == "false"
    assert config.broker_session_timeout_ms == 1800


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CONTROLLER://127.0.0.1:9093", ("CONTROLLER", "127.0.0.1", 9093)),
        ("CONTROLLER://:0", ("CONTROLLER", "", 0)),
        ("PLAINTEXT://h:1,CONTROLLER://h:2", ("CONTROLLER", "h", 2)),
        ("CONTROLLER://[::1]:9093", ("CONTROLLER", "::1", 9093)),
    ],
)
def test_listeners(text: str, expected: tuple[str, str, int]) -> None:
    config, _ = read_config({"node.id": "1", "listeners": text})
    listener = listener_of(config)
    assert (listener.name, listener.host, listener.port) == expected


@pytest.mark.parametrize(
    "text", ["", "CONTROLLER", "CONTROLLER://h", "CONTROLLER://h:99999", "OTHER://h:1"]
)
def test_listeners_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError):
        read_config({"node.id": "1", "listeners": text})


def test_the_voters_of_a_quorum() -> None:
    voters = {"node.id": "2", "controller.quorum.voters": "3@[::1]:7,1@a:1,2@b:1"}
    config, _ = read_config(voters)
    settings, endpoints = quorum_of(config, bytes(16))
    assert settings.voters == (1, 2, 3)
    assert endpoints[3] == Endpoint("CONTROLLER", "::1", 7)


@pytest.mark.parametrize("text", ["2", "2@b", "2@:1", "x@b:1", "2@b:1,2@c:1", "2@b:port"])
def test_voters_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"controller\.quorum\.voters"):
        read_config({"node.id": "2", "controller.quorum.voters": text})


DISK = "AAAAAAAAAAAAAAAAAAAABw"


def readmitting(text: str) -> QuorumSettings:
    keys = {
        "node.id": "2",
        "controller.quorum.voters": "1@a:1,2@b:1,3@c:1",
        "controller.quorum.readmitted.voters": text,
    }
    return quorum_of(read_config(keys)[0], bytes(16))[0]


def test_voters_that_are_readmitted_on_another_disk() -> None:
    disk = bytes(15) + b"\7"
    assert readmitting("").readmitted == ()
    assert readmitting(f"3:{DISK}").readmitted == (VoterKey(3, disk),)
    assert len(readmitting(f"3:{DISK},1:{DISK}").readmitted) == 2


@pytest.mark.parametrize("text", ["3", f"9:{DISK}", f":{DISK}", "3:", "3:disk", f"x:{DISK}"])
def test_readmissions_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"controller\.quorum\.readmitted\.voters"):
        readmitting(text)


def test_a_key_that_means_nothing_here_is_one_warning() -> None:
    _, warnings = read_config({"node.id": "1", "num.io.threads": "8"})
    assert len(warnings) == 1
    assert "num.io.threads" in warnings[0]
