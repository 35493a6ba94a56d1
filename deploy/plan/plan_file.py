"""A plan as a file: what Kafka's reassign-partitions reads, with the way back beside it. Pure."""

import json
from dataclasses import dataclass
from typing import Any, Final

from ...client.cli.reassignment import from_json, to_json
from ...runtime.errors import ConfigError
from .cluster import Placement

OPTION: Final = "FILE"


@dataclass(frozen=True, slots=True)
class Plan:
    """Replicas before and after, of the partitions that change, in one cluster."""

    cluster_id: str
    goal: str
    """The goal in words, as in `drain brokers 3`."""
    before: Placement
    after: Placement

    def text(self) -> str:
        """Return the plan as JSON; `partitions` is what Kafka's tool reads."""
        parts = {
            **json.loads(to_json(self.after)),
            "before": json.loads(to_json(self.before))["partitions"],
            "cluster_id": self.cluster_id,
            "goal": self.goal,
        }
        return json.dumps(parts, separators=(",", ":")) + "\n"

    @classmethod
    def parse(cls, found: dict[str, Any]) -> "Plan":
        """Read the JSON object; ConfigError if it is no plan."""
        for key in ("cluster_id", "goal"):
            if not isinstance(found.get(key), str):
                raise ConfigError(OPTION, None, f'needs a text "{key}": it is no plan of ours')
        after = from_json(found)
        before = from_json({"partitions": found.get("before")})
        if list(after) != list(before):
            raise ConfigError(OPTION, None, '"partitions" and "before" name other partitions')
        return cls(found["cluster_id"], found["goal"], before, after)
