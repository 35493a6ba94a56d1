"""The guard of settings by which a topic's records are forwarded to other topics.

The brokers forward in nobody's name. So whoever makes a topic forward needs the right to write to
each topic that gets its records. And so does whoever changes in whose name they are asked again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.control.records import TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.forwarding_keys import AUTHORIZE, named_topics
from ...protocol.messages.describe_configs import ResourceType
from ...protocol.schema import shape_of
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
                topics += _present(asker, request, item, config)
            except ValueError:
                return ErrorCode.NONE  # The controller refuses it, and says why.
            is_allowed = all(demanded(asker, request, WRITE, name) for name in topics)
            return ErrorCode.NONE if is_allowed else WRITE.error

        return narrowed(request, self.items, judged, adding(request, self.results))


def _present(asker: Asker, request: Any, item: Any, config: Mapping[str, str]) -> list[str]:
    """Return the targets that a topic has now, if the request may change who is asked for them."""
    name = getattr(item, "resource_name", None)
    if name is None:
        return []  # It is being made.
    present = asker.image.configs.get((TOPIC, name), {})
    # What AlterConfigs does not name is removed.
    is_removed = AUTHORIZE in present and shape_of(type(request)).api_key == ApiKey.ALTER_CONFIGS
    if AUTHORIZE not in config and not is_removed:
        return []
    return [topic for _, topic in named_topics(present)]
