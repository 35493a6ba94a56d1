"""The plugins and loggers of a worker, and what they say of a configuration; for both herders.

A connector is asked in a thread, because it may ask its system, and within a deadline.
"""

import asyncio
from functools import partial
from typing import Final

from ..runtime.runtime import Runtime
from .config_json import errors_of
from .herding import BadRequest, Config, HerderError, Json
from .loggers import Loggers
from .plugins import Plugins
from .validation import Rules, describe, kind_of, validate

VALIDATE_S: Final = 60
"""The longest that a connector may take to look at its configuration."""


class Library:
    """Answers questions about plugins and loggers."""

    def __init__(self, runtime: Runtime, plugins: Plugins, rules: Rules) -> None:
        self._loggers = Loggers(runtime)
        self._plugins = plugins
        self._rules = rules

    async def check(self, config: Config) -> None:
        """Raise BadRequest with all errors of a connector's configuration."""
        wrong = errors_of(await self.validate(config.get("connector.class", ""), config))
        if wrong is not None:
            raise BadRequest(wrong)

    async def validate(self, plugin: str, config: Config) -> Json:
        """Return {name, error_count, groups, configs}.

        Raise BadRequest if it names no connector, HerderError if that takes longer than VALIDATE_S.
        """
        ask = partial(validate, dict(config), self._plugins, self._rules)
        try:
            async with asyncio.timeout(VALIDATE_S):
                return await asyncio.to_thread(ask)
        except TimeoutError:
            why = f"The connector took longer than {VALIDATE_S} s to validate its configuration"
            raise HerderError(why) from None

    def kind(self, config: Config) -> str:
        """Return source, sink or unknown."""
        return kind_of(config, self._plugins)

    def listing(self, *, connectors_only: bool) -> list[Json]:
        """Return [{class, type, version}]."""
        return list(self._plugins.listing(connectors_only=connectors_only))

    def describe(self, plugin: str) -> list[Json]:
        """Return the keys of a plugin's configuration. Raise NotFound if there is none."""
        return describe(plugin, self._plugins)

    def loggers(self) -> Json:
        """Return {logger: {level, last_modified}}."""
        return self._loggers.listing()

    def set_logger(self, namespace: str, level: str) -> list[str]:
        """Set a level here, and return the loggers; raise NotFound for an unknown level."""
        return self._loggers.set(namespace, level)
