"""Creates the topics that sources write to, with the settings that their configuration gives.

`topic.creation.default.partitions` and `.replication.factor` switch it on; groups with patterns
take precedence, in the order of `topic.creation.groups` (KIP-158). Without them it is left to the
cluster's auto.create.topics.enable.
"""

import re
from collections.abc import Mapping
from typing import Final

from ..client.admin.admin import Admin
from ..client.admin.topic_types import NewTopic
from ..runtime.runtime import Runtime
from .clients import Clients
from .config_def import BadConfig
from .offset_store import create_topic

PREFIX: Final = "topic.creation."
DEFAULT: Final = "default"
_OWN: Final = ("include", "exclude", "partitions", "replication.factor")


def new_topic(props: Mapping[str, str], topic: str) -> NewTopic | None:
    """Return how to create a topic; None if the configuration does not say.

    Raise BadConfig if a value is wrong.
    """
    if f"{PREFIX}{DEFAULT}.partitions" not in props:
        return None
    groups = [one.strip() for one in props.get(f"{PREFIX}groups", "").split(",") if one.strip()]
    group = next((one for one in groups if _holds(props, one, topic)), DEFAULT)
    found = {**_settings(props, DEFAULT), **_settings(props, group)}
    return NewTopic(
        topic,
        _number(found, group, "partitions"),
        _number(found, group, "replication.factor"),
        configs={key: value for key, value in found.items() if key not in _OWN},
    )


def _settings(props: Mapping[str, str], group: str) -> dict[str, str]:
    prefix = f"{PREFIX}{group}."
    return {
        key.removeprefix(prefix): value for key, value in props.items() if key.startswith(prefix)
    }


def _holds(props: Mapping[str, str], group: str, topic: str) -> bool:
    def matches(key: str) -> bool:
        patterns = _settings(props, group).get(key, "").split(",")
        try:
            return any(re.fullmatch(each.strip(), topic) for each in patterns if each.strip())
        except re.error as error:
            raise BadConfig(f"{PREFIX}{group}.{key}: {error}") from None

    return matches("include") and not matches("exclude")


def _number(found: Mapping[str, str], group: str, key: str) -> int:
    text = found.get(key, "-1")
    if not re.fullmatch(r"-1|[1-9]\d{0,8}", text):
        raise BadConfig(
            f"Invalid value {text} for configuration {PREFIX}{group}.{key}: a number"
            " from 1 on, or -1 for the cluster's default"
        )
    return int(text)


class TopicCreation:
    """Creates the missing topics of one task; the admin is opened when it is needed."""

    def __init__(self, runtime: Runtime, props: Mapping[str, str], clients: Clients) -> None:
        self._runtime = runtime
        self._props = props
        self._clients = clients
        self._admin: Admin | None = None

    async def create(self, topic: str) -> None:
        """Create a topic unless it is there. Raise AdminError if the cluster refuses."""
        wanted = new_topic(self._props, topic)
        if wanted is None:
            return
        if self._admin is None:
            self._admin = Admin(runtime=self._runtime, **self._clients.admin())
            await self._admin.start()
        await create_topic(self._admin, wanted)

    async def close(self) -> None:
        """Close the admin."""
        if self._admin is not None:
            await self._admin.close()
