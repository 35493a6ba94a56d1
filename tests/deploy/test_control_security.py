"""What each daemon asks of its settings before it opens anything: proof, where others reach it."""

from collections.abc import Callable, Mapping

import pytest

from minikafka.broker.__main__ import prepare as prepare_broker
from minikafka.controller.__main__ import prepare as prepare_controller
from minikafka.runtime.daemon import Plan
from minikafka.runtime.errors import ConfigError

BROKER = {
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "log.dirs": "nowhere",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    "inter.broker.listener.name": "INSIDE",
    "listeners": "INSIDE://127.0.0.1:9092,OUTSIDE://10.0.0.1:9094",
}
CONTROLLER = {
    "node.id": "9",
    "controller.quorum.voters": "9@10.0.0.1:9093",
    "log.dirs": "nowhere",
    "listeners": "CONTROLLER://10.0.0.1:9093",
}


@pytest.mark.parametrize(
    ("prepare", "settings"),
    [(prepare_broker, BROKER), (prepare_controller, CONTROLLER)],
    ids=["broker", "controller"],
)
def test_without_a_key_a_daemon_is_not_reached_from_elsewhere_unless_none_is_written(
    prepare: Callable[[dict[str, str]], Plan], settings: Mapping[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"^control\.psk\.file: is required .*10\.0\.0\.1"):
        prepare({**settings})
    prepare({**settings, "control.security": "none"})
    prepare({**settings, "control.psk.file": "a file"})
    stores = ("control.ssl.keystore.location", "control.ssl.truststore.location")
    prepare({**settings, **dict.fromkeys(stores, "a file")})
    prepare({key: text.replace("10.0.0.1", "127.0.0.1") for key, text in settings.items()})
