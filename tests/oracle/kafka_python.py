"""kafka-python 3, imported past its deprecation warnings: its messages and their definitions."""

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.protocol.admin
    import kafka.protocol.consumer
    import kafka.protocol.metadata
    import kafka.protocol.producer
    import kafka.protocol.sasl
    import kafka.record.default_records
    from kafka.protocol.schemas import load_json

RECORDS = kafka.record.default_records

MODULES = (
    kafka.protocol.producer,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.admin,
    kafka.protocol.sasl,
)


def message(name: str, version: int) -> Any:
    """The class of a message in a version."""
    for module in MODULES:
        if hasattr(module, name):
            return getattr(module, name)[version]
    raise LookupError(name)


def definition(name: str) -> dict[str, Any]:
    """Kafka's own definition of a message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return dict(load_json(name))


def has(name: str) -> bool:
    """Does it know the message? It lacks some APIs, which kio has."""
    api = name.removesuffix("Request").removesuffix("Response")
    lacking = ("UnregisterBroker", "GetTelemetrySubscriptions", "PushTelemetry")
    return api not in lacking and not api.endswith("DelegationToken")
