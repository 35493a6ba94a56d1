"""The program minikafka-broker."""

from typing import TYPE_CHECKING

from ..runtime.daemon import Plan, Stop, daemon_command
from .config import bound_listeners
from .server import Broker
from .settings import read_settings

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime


def prepare(properties: dict[str, str]) -> Plan:
    """Check the configuration and return how to start the broker; open nothing yet."""
    settings = read_settings(properties)
    config = settings.config
    settings.control.check(bound_listeners(config))

    async def start(runtime: "Runtime", stop: Stop) -> Broker:
        return await Broker.start(runtime, settings, stop)

    return Plan(f"broker-{config.node_id}", start, settings.warnings)


main = daemon_command(
    "minikafka-broker", prepare, help="Run one broker: partitions, replication, the Kafka API."
)

if __name__ == "__main__":
    main()
