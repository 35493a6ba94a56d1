"""The clients of the suite, and which of them a test is about."""

from typing import Final

import pytest

from minikafka.broker.api.table import SPOKEN
from minikafka.protocol.api import ApiKey

PYTHON: Final = ("confluent-kafka", "aiokafka", "kafka-python")
JAVASCRIPT: Final = ("kafkajs", "platformatic")
FOREIGN: Final = (*PYTHON, *JAVASCRIPT)
OURS: Final = "minikafka"
ALL: Final = (*FOREIGN, OURS)

TITLES: Final = {
    "confluent-kafka": "confluent-kafka (librdkafka)",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka-python",
    "kafkajs": "kafkajs",
    "platformatic": "@platformatic/kafka",
    "minikafka": "minikafka",
}

LACKS: Final[dict[str, frozenset[str]]] = {
    "confluent-kafka": frozenset(
        {"alter config in full", "delete group offsets", "list transactions", "log dirs"}
    ),
    "aiokafka": frozenset(
        {
            "alter group offsets",
            "alter config in full",
            "cooperative",
            "delete group",
            "delete group offsets",
            "list transactions",
            "log dirs",
        }
    ),
    "kafka-python": frozenset(),
    "kafkajs": frozenset(
        {
            "alter config in full",
            "committed",
            "cooperative",
            "delete group offsets",
            "list transactions",
            "log dirs",
            "static membership",
        }
    ),
    "platformatic": frozenset(
        {
            "another coordinator",  # it ends when its coordinator is no longer among the brokers
            "cooperative",
            "fencing",  # asks for the producer id 0, which is refused if the id is in use
            "list transactions",
            "several aborts in one fetch",  # of one producer it leaves out only the last
            "transactions under ACLs",  # it asks in a version that is for brokers only
        }
    ),
    "minikafka": frozenset(),
}
"""The features that a client does not have."""


def having(feature: str) -> list[str]:
    """Give the clients that have a feature."""
    return [client for client in ALL if feature not in LACKS[client]]


def needs(*keys: ApiKey) -> pytest.MarkDecorator:
    """Skip the test if the broker does not have these APIs."""
    missing = [key.name for key in keys if key not in SPOKEN]
    return pytest.mark.skipif(bool(missing), reason=f"not spoken: {', '.join(missing)}")


def client_of(item: pytest.Item) -> str | None:
    """Tell which client a test is about: its parameter, or the one its module is named for."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None and "client" in callspec.params:
        return str(callspec.params["client"])
    module = item.path.stem.removeprefix("test_").replace("_", "-")
    names = {"confluent": "confluent-kafka", "ours": OURS, **{one: one for one in ALL}}
    found = [name for word, name in names.items() if module.startswith(word)]
    if found:
        return found[0]
    name = item.name.removeprefix("test_").replace("_", "-")
    found = [client for word, client in names.items() if name.startswith(word)]
    return found[0] if found else None
