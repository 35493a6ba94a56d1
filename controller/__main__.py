"""The program minikafka-controller."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..runtime.daemon import Plan, Stop, daemon_command
from ..security.sasl.first_users import FLAG, parse_first_user
from .config import listener_of, read_config
from .server import ControllerServer

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime


ADD_SCRAM = click.Option(
    [FLAG],
    multiple=True,
    metavar="MECHANISM=[name=NAME,password=PASSWORD]",
    help="Give a new cluster this user; no effect on a cluster that exists.",
)


def prepare(properties: dict[str, str], add_scram: Sequence[str] = ()) -> Plan:
    """Check the configuration and return how to start the controller; open nothing yet."""
    config, warnings = read_config(properties)
    first_users = [parse_first_user(text) for text in add_scram]
    config.control.check((listener_of(config),))

    async def start(runtime: "Runtime", stop: Stop) -> ControllerServer:
        return await ControllerServer.start(runtime, config, stop.crash, first_users)

    return Plan(f"controller-{config.node_id}", start, warnings)


main = daemon_command(
    "minikafka-controller",
    prepare,
    [ADD_SCRAM],
    help="Run one controller: the cluster's metadata and liveness.",
)

if __name__ == "__main__":
    main()
