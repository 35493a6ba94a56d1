"""The guard of settings by which a topic's records are forwarded to other topics.

The brokers forward in nobody's name. So whoever makes a topic forward needs the right to write to
each topic that gets its records.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...protocol.acls import Operation, Resource
from ...protocol.errors import ErrorCode
from ...protocol.forwarding_keys import named_topics
from ...protocol.messages.describe_configs import ResourceType
from .guards import Asker, Need, Verdict, adding, demanded, narrowed

WRITE = Need(Operation.WRITE, Resource.TOPIC)


def of_topics(item: Any) -> bool:
    """Return True: each item of a CreateTopics request is a topic."""
    return True


def of_resources(item: Any) -> bool:
    """Return True if a resource whose settings are altered is a topic."""
    return int(item.resource_type) == ResourceType.TOPIC


@dataclass(frozen=True, slots=True)
class Targets:
    """CreateTopics, AlterConfigs, IncrementalAlterConfigs: WRITE on the topics that are named."""

    items: str
    results: str
    is_topic: Callable[[Any], bool]
    needs: Sequence[Need] = (WRITE,)

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Take out the topics whose settings name others that the client may not write to."""

        def judged(item: Any) -> ErrorCode:
            if not self.is_topic(item):
                return ErrorCode.NONE
            config = {each.name: each.value or "" for each in item.configs}
            try:
                topics = [name for _, name in named_topics(config)]
            except ValueError:
                return ErrorCode.NONE  # The controller refuses it, and says why.
            is_allowed = all(demanded(asker, request, WRITE, name) for name in topics)
            return ErrorCode.NONE if is_allowed else WRITE.error

        return narrowed(request, self.items, judged, adding(request, self.results))
