"""A plan as a file: JSON for Kafka's reassign-partitions, and the former replicas. Pure."""

import json
from dataclasses import dataclass
from typing import Any, Final

from ...client.cli.reassignment import from_json, to_json
from ...runtime.errors import ConfigError
from .cluster import Placement

OPTION: Final = "FILE"


@dataclass(frozen=True, slots=True)
class Plan:
    """The replicas before and after, for each partition of a cluster that changes."""

    cluster_id: str
    goal: str
    """The goal in words, as in `drain brokers 3`."""
    before: Placement
    after: Placement

    def text(self) -> str:
        """Return the plan as JSON; Kafka's tool reads the field `partitions`."""
        parts = {
            **json.loads(to_json(self.after)),
            "before": json.loads(to_json(self.before))["partitions"],
            "cluster_id": self.cluster_id,
            "goal": self.goal,
        }
        return json.dumps(parts, separators=(",", ":")) + "\n"

    @classmethod
    def parse(cls, found: dict[str, Any]) -> "Plan":
        """Read the JSON object; raise ConfigError if it is no plan."""
        for key in ("cluster_id", "goal"):
            if not isinstance(found.get(key), str):
                raise ConfigError(OPTION, None, f'needs a text "{key}": it is no plan of ours')
        after = from_json(found)
        before = from_json({"partitions": found.get("before")})
        if list(after) != list(before):
            raise ConfigError(OPTION, None, '"partitions" and "before" name other partitions')
        return cls(found["cluster_id"], found["goal"], before, after)
