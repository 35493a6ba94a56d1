"""Admin requests that the active controller decides: request and answer pass unchanged.

One supervised task per request; the connection waits for it. If no controller answers in time,
every resource of the request gets the same error.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...protocol.api import ApiKey
from ...protocol.codec import decode, encode_bytes, response_class
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
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
from ...protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ...protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ...protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ...protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from ...protocol.types import Buffer
from ...storage.topic_config import WITHOUT_EFFECT
from ..net.answer import Answer, Call

log = logging.getLogger(__name__)

Refusal = Callable[[Any, ErrorCode, str], object]
"""The response that gives everything in a request the same error."""
Completion = Callable[[Any], object]
"""The response as the client gets it, made of the controller's."""


class Forwarded(Answer):
    """A request on its way to the controller and back."""

    __slots__ = ("_api_key", "_complete", "_frame", "_refusal", "_request", "_task")

    def __init__(
        self,
        call: Call,
        api_key: ApiKey,
        request: object,
        refusal: Refusal,
        complete: Completion | None = None,
    ) -> None:
        """Without `complete` the controller's answer goes out as it came, undecoded."""
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
        """Answer once the controller has."""
        return self._frame

    def cancel(self) -> None:
        """Stop waiting: the client is gone. The controller may still do what it was asked."""
        self._task.cancel()

    async def _forward(self) -> None:
        call = self.call
        body = encode_bytes(self._request, call.version)
        try:
            answer = await call.edge.controller.forward(self._api_key, call.version, body)
        except ApiError as error:
            self._frame = self._framed(self._refusal(self._request, error.code, error.detail))
        else:
            cls = response_class(self._api_key)
            if self._complete is None:
                self._frame = call.frame_encoded(cls, answer)
            else:
                self._frame = self._framed(decode(cls, call.version, answer))
        call.connection.wake()

    def _framed(self, response: object) -> list[Buffer]:
        return self.call.frame(self._complete(response) if self._complete else response)


def create_topics(call: Call, request: CreateTopicsRequest) -> Answer:
    """Have topics created."""
    for topic in request.topics:
        warn_of_unused(topic.name, WITHOUT_EFFECT, (each.name for each in topic.configs))
    return Forwarded(call, ApiKey.CREATE_TOPICS, request, _no_topics_created)


def delete_topics(call: Call, request: DeleteTopicsRequest) -> object:
    """Remove topics, unless delete.topic.enable is off."""
    if not call.edge.config.delete_topic_enable:
        return _no_topics_deleted(request, ErrorCode.TOPIC_DELETION_DISABLED, "")
    return Forwarded(call, ApiKey.DELETE_TOPICS, request, _no_topics_deleted)


def create_partitions(call: Call, request: CreatePartitionsRequest) -> Answer:
    """Have partitions added to topics."""
    return Forwarded(call, ApiKey.CREATE_PARTITIONS, request, _no_partitions_created)


def elect_leaders(call: Call, request: ElectLeadersRequest) -> Answer:
    """Elect preferred leaders, or uncleanly where there is none."""
    return Forwarded(call, ApiKey.ELECT_LEADERS, request, _no_leaders_elected)


def alter_partition_reassignments(
    call: Call, request: AlterPartitionReassignmentsRequest
) -> Answer:
    """Move replicas to other brokers."""
    refusal = _no_reassignments_altered
    return Forwarded(call, ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, refusal)


def list_partition_reassignments(call: Call, request: ListPartitionReassignmentsRequest) -> Answer:
    """Tell which replicas are moving, as the controller has it."""
    refusal = _no_reassignments_listed
    return Forwarded(call, ApiKey.LIST_PARTITION_REASSIGNMENTS, request, refusal)


def describe_quorum(call: Call, request: DescribeQuorumRequest) -> Answer:
    """Have the controllers' quorum described."""
    return Forwarded(call, ApiKey.DESCRIBE_QUORUM, request, _no_quorum_described)


def update_features(call: Call, request: UpdateFeaturesRequest) -> Answer:
    """Have levels of features finalised."""
    return Forwarded(call, ApiKey.UPDATE_FEATURES, request, _no_features_updated)


def unregister_broker(call: Call, request: UnregisterBrokerRequest) -> Answer:
    """Forget a broker that will not come back."""
    return Forwarded(call, ApiKey.UNREGISTER_BROKER, request, _no_broker_unregistered)


def warn_of_unused(name: str, unused: Mapping[str, str], keys: Iterable[str]) -> None:
    """Say in one line which keys of a configuration are taken for Kafka's sake alone."""
    without = [f"{key} ({unused[key]})" for key in keys if key in unused]
    if without:
        log.warning("configuration of %r: no effect have %s", name, ", ".join(without))


def _no_topics_created(request: CreateTopicsRequest, error: ErrorCode, why: str) -> object:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=error, error_message=why or error.doc)
            for topic in request.topics
        ]
    )


def _no_topics_deleted(request: DeleteTopicsRequest, error: ErrorCode, why: str) -> object:
    by_name = [DeletableTopicResult(name=name) for name in request.topic_names]
    results = by_name or [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id) for topic in request.topics
    ]
    for result in results:
        result.error_code, result.error_message = error, why or error.doc
    return DeleteTopicsResponse(responses=results)


def _no_partitions_created(request: CreatePartitionsRequest, error: ErrorCode, why: str) -> object:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=topic.name, error_code=error, error_message=why or error.doc
            )
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
                    PartitionResult(
                        partition_id=index, error_code=error, error_message=why or error.doc
                    )
                    for index in named.partitions
                ],
            )
            for named in request.topic_partitions or ()
        ],
    )


def _no_reassignments_altered(
    request: AlterPartitionReassignmentsRequest, error: ErrorCode, why: str
) -> object:
    return AlterPartitionReassignmentsResponse(error_code=error, error_message=why or error.doc)


def _no_reassignments_listed(
    request: ListPartitionReassignmentsRequest, error: ErrorCode, why: str
) -> object:
    return ListPartitionReassignmentsResponse(error_code=error, error_message=why or error.doc)


def _no_quorum_described(request: DescribeQuorumRequest, error: ErrorCode, why: str) -> object:
    return DescribeQuorumResponse(error_code=error, error_message=why or error.doc)


def _no_features_updated(request: UpdateFeaturesRequest, error: ErrorCode, why: str) -> object:
    return UpdateFeaturesResponse(error_code=error, error_message=why or error.doc)


def _no_broker_unregistered(request: UnregisterBrokerRequest, error: ErrorCode, why: str) -> object:
    return UnregisterBrokerResponse(error_code=error, error_message=why or error.doc)
