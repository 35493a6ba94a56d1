"""The plugins and loggers of a worker, and what they say of a configuration; for both herders.

A connector is asked in a thread, because it may ask its system, and within a deadline.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from ..runtime.runtime import Runtime
from .config_json import errors_of
from .herding import BadRequest, Config, HerderError, Json, Unavailable
from .hosts import Ask, Stop, ThreadHost, no_answer
from .loggers import Loggers
from .plugins import Plugins
from .validation import Rules, describe, kind_of, validate

VALIDATE_S: Final = 60
"""The longest that a connector may take to look at its configuration."""
MOST_LOOKS: Final = 16
"""The most configurations that are looked at at a time, each in a thread of its own."""


class _Look:
    """Looks at one configuration; it runs in a thread."""

    def __init__(self, validate: Callable[[], Json], ask: Ask, stop: Stop) -> None:
        self._validate = validate

    async def look(self) -> Json:
        """Return the answer."""
        return self._validate()


class Library:
    """Answers questions about plugins and loggers."""

    def __init__(self, runtime: Runtime, plugins: Plugins, rules: Rules) -> None:
        self._runtime = runtime
        self._loggers = Loggers(runtime)
        self._looking = 0
        self._plugins = plugins
        self._rules = rules

    async def check(self, config: Config) -> None:
        """Raise BadRequest with all errors of a connector's configuration."""
        wrong = errors_of(await self.validate(config.get("connector.class", ""), config))
        if wrong is not None:
            raise BadRequest(wrong)

    async def validate(self, plugin: str, config: Config) -> Json:
        """Return {name, error_count, groups, configs}.

        Raise BadRequest if it names no connector, HerderError if that takes longer than VALIDATE_S,
        Unavailable while too many that hang are not done.
        """
        if self._looking >= MOST_LOOKS:
            raise Unavailable(f"{MOST_LOOKS} configurations are being validated: try again")
        self._looking += 1
        look = self._look(partial(validate, dict(config), self._plugins, self._rules))
        looking = self._runtime.spawn(look, "validation")
        await asyncio.wait([looking], timeout=VALIDATE_S)
        if not looking.done():
            why = f"The connector took longer than {VALIDATE_S} s to validate its configuration"
            raise HerderError(why)
        answer, error = looking.result()
        if error is not None:
            raise error
        return answer

    async def _look(self, validate: Callable[[], Json]) -> tuple[Json, Exception | None]:
        # Not a thread of the loop's own: these resolve the names of brokers.
        host = ThreadHost(self._runtime, "connect-validate", partial(_Look, validate), no_answer)
        try:
            return await host.call("look"), None
        except Exception as error:
            return {}, error
        finally:
            self._looking -= 1
            host.leave()

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
