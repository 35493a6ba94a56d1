"""Runs flows: a worker and a herder for each, at home in the target, with MM2's connectors."""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from ..herding import Herder, NotLeader
from .mm2_config import Flow, Mm2Config

log = logging.getLogger(__name__)

OpenHerder = Callable[[Flow, Mapping[str, str]], AbstractAsyncContextManager[Herder]]
"""Runs a worker of these properties until the end of the block."""


@asynccontextmanager
async def running_flows(
    config: Mm2Config, flows: Sequence[Flow], open_herder: OpenHerder
) -> AsyncIterator[dict[Flow, Herder]]:
    """Run the flows until the end of the block; raise HerderError if a configuration is refused."""
    herders: dict[Flow, Herder] = {}
    async with AsyncExitStack() as stack:
        for flow in flows:
            opened = open_herder(flow, config.worker_props(flow))
            herders[flow] = await stack.enter_async_context(opened)
        for flow, herder in herders.items():
            await _configure(config, flow, herder)
        yield herders


async def _configure(config: Mm2Config, flow: Flow, herder: Herder) -> None:
    """Give a flow's connectors their configuration, and delete those that it has no more.

    In a group of workers only the leader does that, with the configuration that it has.
    """
    wanted = config.connectors(flow)
    try:
        for name in await herder.connectors():
            if name not in wanted:
                await herder.delete(name)
        for name in wanted:
            await herder.put_config(name, config.connector_props(flow, name))
    except NotLeader:
        log.warning("%s: another worker leads the flow, and has its configuration", flow)
    else:
        log.info("%s: %s", flow, ", ".join(wanted))
