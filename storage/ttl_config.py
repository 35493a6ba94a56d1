"""The settings of a topic whose records expire: consumers do not get them any more."""

from functools import partial

from ..protocol.expiry import TtlRule
from ..runtime import config
from ..runtime.config import config_table
from ..runtime.errors import ConfigError

setting = partial(config.setting, dynamic=True)


@config_table
class TtlConfig:
    """When the records of one topic expire."""

    ttl_ms: int = setting(
        "minikafka.ttl.ms",
        -1,
        at_least=-1,
        doc="Consumers do not get a batch any more this long after its greatest timestamp, and"
        " segments older than that are deleted; -1 means never.",
    )
    enable: bool = setting(
        "minikafka.ttl.enable",
        False,
        doc="Records may say when they expire, by the header minikafka-ttl-ms (from their"
        " timestamp, or never) or minikafka-expires-at. A batch is hidden when all of its records"
        " have expired.",
    )
    strict: bool = setting(
        "minikafka.ttl.strict",
        False,
        doc="Expired records are also taken out of batches in which others have not expired. Each"
        " batch is then opened when it is first fetched.",
    )

    @property
    def is_on(self) -> bool:
        """True if records of the topic can expire."""
        return self.enable or self.ttl_ms >= 0

    @property
    def rule(self) -> TtlRule | None:
        """When the records expire; None if they never do."""
        return TtlRule(self.ttl_ms, self.enable, self.strict) if self.is_on else None

    def check_with(self, *, delay_target: str) -> None:
        """Raise ConfigError if the topic's other settings do not go with records that expire."""
        if self.is_on and delay_target:
            why = "records of a delay topic expire by their headers; set it on the target"
            key = "minikafka.ttl.enable" if self.enable else "minikafka.ttl.ms"
            raise ConfigError(key, "true" if self.enable else self.ttl_ms, why)
