"""The settings of a topic whose records also go to other topics, by rules."""

from functools import partial

from ..protocol.routes import Routes, parse_routes
from ..runtime import config
from ..runtime.config import config_table
from ..runtime.errors import ConfigError

DEFAULT, DROP, DEAD_LETTER = "default", "drop", "deadletter"
RULES = "minikafka.route.rules"
setting = partial(config.setting, dynamic=True)


@config_table
class RouteConfig:
    """The rules of one topic."""

    rules: str = setting(
        RULES,
        "",
        doc="Copies each record to the topics of the rules that match its key and headers, as JSON:"
        ' [{"if": {"header": {"kind": {"equals": "order"}}}, "to": ["orders"]},'
        ' {"else": true, "to": ["rest"]}]. Conditions are equals, prefix, in and exists.',
    )
    unmatched: str = setting(
        "minikafka.route.unmatched",
        DEFAULT,
        choices=(DEFAULT, DROP, DEAD_LETTER),
        doc="Where records go that no rule matches. default: to minikafka.delay.target if there is"
        " one; drop: nowhere; deadletter: to minikafka.deadletter.topic.",
    )

    @property
    def is_on(self) -> bool:
        """True if the topic has rules."""
        return bool(self.rules)

    @property
    def routes(self) -> Routes | None:
        """The rules; None without any."""
        return parse_routes(self.rules) if self.rules else None

    def check_with(self, *, is_compacted: bool) -> None:
        """Raise ConfigError if the rules cannot be read, or do not go with other settings."""
        if not self.rules:
            return
        try:
            parse_routes(self.rules)
        except ValueError as error:
            raise ConfigError(RULES, self.rules[:80], str(error)) from None
        if is_compacted:
            raise ConfigError(RULES, self.rules[:80], "a compacted topic cannot have rules")
