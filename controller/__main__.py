"""The program minikafka-controller."""

from typing import TYPE_CHECKING

from ..runtime.daemon import Plan, Stop, daemon_command
from ..security.control_settings import check_control
from .config import listener_of, read_config
from .server import ControllerServer

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime


def prepare(properties: dict[str, str]) -> Plan:
    """Check the configuration and return how to start the controller; open nothing yet."""
    config, warnings = read_config(properties)
    check_control(config.control_security, config.control_psk_file, (listener_of(config),))

    async def start(runtime: "Runtime", stop: Stop) -> ControllerServer:
        return await ControllerServer.start(runtime, config, on_failed=stop.crash)

    return Plan(f"controller-{config.node_id}", start, warnings)


main = daemon_command(
    "minikafka-controller", prepare, help="Run one controller: the cluster's metadata and liveness."
)

if __name__ == "__main__":
    main()
