"""Creates topics that clients ask for, with one request to the controller at a time.

A request contains the topics that one client was the first to ask for. It is made in that client's
name, because the controller checks that client's rights. The names that are being created, or were
refused in the last RETRY_MS, are remembered. The controller decides whether a topic may be created,
and with which settings.
"""

import logging
from collections.abc import Callable, Mapping

from ...protocol.api import ApiKey
from ...protocol.codec import decode, encode_bytes
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_topics import (
    BROKER_DEFAULT,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...runtime.runtime import Runtime
from ...security.principal import Origin
from .controller_channel import ActiveController

log = logging.getLogger(__name__)

VERSION = 7
PENDING_MAX = 1000
"""The most names remembered as being created or recently refused; while so many are remembered,
other names are ignored."""
RETRY_MS = 1000
"""Milliseconds for which a refused name is not tried again."""


class AutoCreation:
    """Asks the controller for missing topics, one request at a time."""

    def __init__(
        self,
        runtime: Runtime,
        controller: ActiveController,
        file_settings: Mapping[str, str],
        internal: Mapping[str, Callable[[], CreatableTopic]],
    ) -> None:
        """`internal` describes the internal topics by name: partitions, replicas and settings."""
        self._runtime = runtime
        self._controller = controller
        # The controller's own settings hold where this broker's file has none.
        self._partitions = int(file_settings.get("num.partitions", BROKER_DEFAULT))
        self._replicas = int(file_settings.get("default.replication.factor", BROKER_DEFAULT))
        self._internal = internal
        self._wanted: dict[str, Origin | None] = {}
        """The names to request, each with the client that asked first."""
        self._refused_ms: dict[str, int] = {}
        self._is_asking = False

    def create(self, names: list[str], origin: Origin | None = None) -> None:
        """Have the controller create these topics, except names refused in the last RETRY_MS.

        While PENDING_MAX names are remembered, only internal topics are added. The request is made
        in the name of the client `origin`. If it is None, the broker asks in its own name, for
        internal topics.
        """
        now_ms = self._runtime.monotonic_ms()
        if len(self._refused_ms) >= PENDING_MAX // 2:
            self._forget_old()
        for name in names:
            is_full = len(self._wanted) + len(self._refused_ms) >= PENDING_MAX
            if is_full and name not in self._internal:
                continue
            refused_ms = self._refused_ms.get(name)
            if refused_ms is not None and now_ms - refused_ms < RETRY_MS:
                continue
            self._refused_ms.pop(name, None)
            self._wanted.setdefault(name, origin)
        if self._wanted and not self._is_asking:
            self._is_asking = True
            self._runtime.spawn(self._ask(), "auto-creation")

    async def _ask(self) -> None:
        try:
            while self._wanted:
                origin = next(iter(self._wanted.values()))
                names = [name for name, whose in self._wanted.items() if whose == origin]
                for name in names:
                    del self._wanted[name]
                await self._create(names, origin)
        finally:
            self._is_asking = False

    async def _create(self, names: list[str], origin: Origin | None) -> None:
        request = CreateTopicsRequest(topics=[self._wanted_as(name) for name in names])
        body = encode_bytes(request, VERSION)
        try:
            answer = await self._controller.forward(ApiKey.CREATE_TOPICS, VERSION, body, origin)
        except ApiError as error:
            log.warning("topics %s could not be created: %s", ", ".join(names), error)
            self._forget_old()
            self._refused_ms |= dict.fromkeys(names, self._runtime.monotonic_ms())
            return
        self._forget_old()
        for topic in decode(CreateTopicsResponse, VERSION, answer).topics:
            if topic.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                continue
            why = topic.error_message or ErrorCode(topic.error_code).name
            log.warning("topic %s could not be created: %s", topic.name, why)
            self._refused_ms[topic.name] = self._runtime.monotonic_ms()

    def _wanted_as(self, name: str) -> CreatableTopic:
        describe = self._internal.get(name)
        if describe is not None:
            return describe()
        return CreatableTopic(
            name=name, num_partitions=self._partitions, replication_factor=self._replicas
        )

    def _forget_old(self) -> None:
        now_ms = self._runtime.monotonic_ms()
        self._refused_ms = {
            name: at_ms for name, at_ms in self._refused_ms.items() if now_ms - at_ms < RETRY_MS
        }
