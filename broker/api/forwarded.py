"""Admin requests that the broker forwards to the active controller.

Each request has one supervised task, and its connection waits for it. If no controller answers in
time, the response has an error, for each resource of the request or at its top level.
"""

import asyncio
import logging
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from ...protocol.api import ApiKey
from ...protocol.codec import decode, encode_bytes, response_class
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from ...protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...protocol.types import Buffer
from ...security.quotas import MUTATION
from ...storage.topic_config import WITHOUT_EFFECT
from ..net.answer import Answer, Call, CallAnswer

log = logging.getLogger(__name__)

_THROTTLE_MS: Final = struct.Struct(">i")
Refusal = Callable[[Any, ErrorCode, str], object]
"""Builds the response that gives every resource of a request the same error."""
Completion = Callable[[Any], object]
"""Builds the client's response from the controller's."""


class Forwarded(CallAnswer):
    """A request on its way to the controller and back."""

    __slots__ = ("_api_key", "_complete", "_frame", "_refusal", "_request", "_task")

    def __init__(
        self,
        call: Call,
        request: object,
        api_key: ApiKey,
        refusal: Refusal | None = None,
        complete: Completion | None = None,
    ) -> None:
        """If `refusal` is None, an error is set at the top level of the response.

        If `complete` is None, the controller's response is passed on undecoded.
        """
        super().__init__(call)
        self._complete = complete
        self._api_key = api_key
        self._request = request
        self._refusal = refusal
        self._frame: list[Buffer] | None = None
        self._task: asyncio.Task[None] = call.edge.runtime.spawn(
            self._forward(), f"forwarded-{api_key.name.lower()}"
        )

    def poll(self) -> list[Buffer] | None:
        """Return the response; None until the controller has answered or forwarding has failed."""
        return self._frame

    def cancel(self) -> None:
        """Stop waiting, because the client is gone. The controller may still do what was asked."""
        self._task.cancel()

    async def _forward(self) -> None:
        call, cls = self.call, response_class(self._api_key)
        body = encode_bytes(self._request, call.version)
        try:
            answer = await call.edge.controller.forward(
                self._api_key, call.version, body, call.origin
            )
        except ApiError as error:
            why = error.detail or error.code.doc
            if self._refusal is None:
                self._frame = self._framed(cls(error_code=error.code, error_message=why))
            else:
                self._frame = self._framed(self._refusal(self._request, error.code, why))
        else:
            if self._complete is None:
                self._frame = self._pass_on(cls, answer)
            else:
                self._frame = self._framed(decode(cls, call.version, answer))
        call.connection.wake()

    def _pass_on(self, cls: type, body: bytes) -> list[Buffer]:
        return self.call.frame_encoded(cls, body)

    def _framed(self, response: object) -> list[Buffer]:
        return self.call.frame(self._complete(response) if self._complete else response)


class Counted(Forwarded):
    """A request of whose changes the controller counts the partitions (KIP-599)."""

    __slots__ = ()

    def _pass_on(self, cls: type, body: bytes) -> list[Buffer]:
        """Mute the client for as long as the controller says."""
        # The throttle time is the first field of these responses, in every version.
        (throttle_ms,) = _THROTTLE_MS.unpack_from(body)
        if throttle_ms:
            self.call.throttle(MUTATION.key, throttle_ms)
        return super()._pass_on(cls, body)


def create_topics(call: Call, request: CreateTopicsRequest) -> Answer:
    """Forward the request; log a warning about settings of topics that have no effect here."""
    for topic in request.topics:
        warn_of_unused(topic.name, WITHOUT_EFFECT, (each.name for each in topic.configs))
    return Counted(call, request, ApiKey.CREATE_TOPICS, _no_topics_created)


def delete_topics(call: Call, request: DeleteTopicsRequest) -> object:
    """Forward the request, or refuse it if delete.topic.enable is off."""
    if not call.edge.config.delete_topic_enable:
        error = ErrorCode.TOPIC_DELETION_DISABLED
        return _no_topics_deleted(request, error, error.doc)
    return Counted(call, request, ApiKey.DELETE_TOPICS, _no_topics_deleted)


def warn_of_unused(name: str, unused: Mapping[str, str], keys: Iterable[str]) -> None:
    """Log one warning that names the keys of a configuration that have no effect here."""
    without = [f"{key} ({unused[key]})" for key in keys if key in unused]
    if without:
        log.warning("configuration of %r: no effect have %s", name, ", ".join(without))


def _no_topics_created(request: CreateTopicsRequest, error: ErrorCode, why: str) -> object:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error, error_message=why)
            for topic in request.topics
        ]
    )


def _no_topics_deleted(request: DeleteTopicsRequest, error: ErrorCode, why: str) -> object:
    by_name = [DeletableTopicResult(name=name) for name in request.topic_names]
    results = by_name or [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id) for topic in request.topics
    ]
    for result in results:
        result.error_code, result.error_message = error, why
    return DeleteTopicsResponse(responses=results)


def _no_partitions_created(request: CreatePartitionsRequest, error: ErrorCode, why: str) -> object:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=why)
            for topic in request.topics
        ]
    )


def _no_leaders_elected(request: ElectLeadersRequest, error: ErrorCode, why: str) -> object:
    return ElectLeadersResponse(
        error_code=error,
        replica_election_results=[
            ReplicaElectionResult(
                topic=named.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error, error_message=why)
                    for index in named.partitions
                ],
            )
            for named in request.topic_partitions or ()
        ],
    )


AS_THEY_ARE: Final[Mapping[ApiKey, Callable[..., object]]] = {
    api_key: partial(forwarded, api_key=api_key, refusal=refusal)
    for api_key, forwarded, refusal in (
        (ApiKey.CREATE_PARTITIONS, Counted, _no_partitions_created),
        (ApiKey.ELECT_LEADERS, Forwarded, _no_leaders_elected),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, Forwarded, None),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, Forwarded, None),
        (ApiKey.DESCRIBE_QUORUM, Forwarded, None),
        (ApiKey.UPDATE_FEATURES, Forwarded, None),
        (ApiKey.UNREGISTER_BROKER, Forwarded, None),
    )
}
"""The APIs whose requests a broker forwards without looking at them."""
