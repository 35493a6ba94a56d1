"""Metadata: brokers, topics and leaders, with the addresses of the client's listener.

Encoded responses are cached until the metadata image changes, because a thousand clients that
reconnect after a failover send the same request. If a missing topic is to be created, the client
gets an error for the topic until the controller has created it, and asks again.
"""

from functools import partial

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.codec import encode_bytes
from ...protocol.control.image import MetadataImage, PartitionState, Topic
from ...protocol.errors import ErrorCode
from ...protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ...protocol.types import INTERNAL_TOPICS, NO_LEADER, WRITTEN_BY_BROKERS, ZERO_UUID
from ..edge import Edge
from ..net.answer import Call
from ..whereabouts import replicas_offline
from .common import (
    OPERATIONS_NOT_ASKED,
    is_legal_topic_name,
    operations_told,
)
from .slices import ITEMS_AT_ONCE, answer_each

KEPT_ANSWERS = 64
LISTENER_NOT_FOUND_FROM = 6


class Metadata:
    """The handler of Metadata, with the broker's cache of encoded responses."""

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], bytes] = {}
        self._image: MetadataImage | None = None
        self._offset = -1

    def handle(self, call: Call, request: MetadataRequest) -> object:
        """Answer from the image, and have missing topics created if that is allowed.

        A topic named more than once is answered once, as in Kafka.
        """
        if request.topics is not None and len(request.topics) > 1:
            once = {(asked.topic_id, asked.name): asked for asked in request.topics}
            request.topics = list(once.values())
            if len(once) > ITEMS_AT_ONCE:
                return self._in_slices(call, request)
        image = call.edge.image
        if self._image is not image or self._offset != image.offset:
            self._kept.clear()
            self._image, self._offset = image, image.offset
        key = _key(call, request)
        body = self._kept.get(key)
        if body is None:
            response = _response(call, request, _topics(call, request))
            if any(topic.topic_id == ZERO_UUID for topic in response.topics):
                # Names of topics that are not there, or are hidden, may be many and long.
                _create(call, request, response)
                return response
            body = encode_bytes(response, call.version)
            if len(self._kept) >= KEPT_ANSWERS:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = body
        return call.frame_encoded(MetadataResponse, body)

    def _in_slices(self, call: Call, request: MetadataRequest) -> object:
        """Answer a request for many topics in slices, and do not cache the response."""

        def whole(topics: list[MetadataResponseTopic]) -> MetadataResponse:
            response = _response(call, request, topics)
            _create(call, request, response)
            return response

        assert request.topics is not None
        return answer_each(call, request.topics, partial(_asked, call, request), whole)


def _key(call: Call, request: MetadataRequest) -> tuple[object, ...]:
    topics, rights = request.topics, call.rights
    return (
        call.version,
        None if rights is None else (rights.principal, rights.host),
        call.connection.listener.name,
        None
        if topics is None
        # A topic that is asked for by its id may have any name beside it, which counts for nothing.
        else tuple(each.name if each.topic_id == ZERO_UUID else each.topic_id for each in topics),
        request.include_cluster_authorized_operations,
        request.include_topic_authorized_operations,
    )


def _missing(response: MetadataResponse) -> list[MetadataResponseTopic]:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return [topic for topic in response.topics if topic.error_code == unknown and topic.name]


def _create(call: Call, request: MetadataRequest, response: MetadataResponse) -> None:
    """Have the missing topics created if that is allowed; else the response gets an error."""
    edge = call.edge
    if not (request.allow_auto_topic_creation and edge.config.auto_create_topics_enable):
        return
    created: list[str] = []
    for topic in _missing(response):
        if topic.name in WRITTEN_BY_BROKERS:
            continue
        if _may_create(call, topic.name or ""):
            created.append(topic.name or "")
        else:
            topic.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if created:
        edge.auto_creation.create(created, call.origin)


def _may_create(call: Call, name: str) -> bool:
    rights, create = call.rights, Operation.CREATE
    if rights is None or rights.may(create, Resource.CLUSTER):
        return True
    return call.demand(ApiKey.METADATA, create, Resource.TOPIC, name)


def _is_hidden(call: Call, name: str) -> bool:
    rights = call.rights
    return rights is not None and not rights.may(Operation.DESCRIBE, Resource.TOPIC, name)


def _topics(call: Call, request: MetadataRequest) -> list[MetadataResponseTopic]:
    if request.topics is None or (call.version == 0 and not request.topics):
        return [
            _topic(call, request, topic)
            for topic in call.edge.image.topics.values()
            if not _is_hidden(call, topic.name)
        ]
    return [_asked(call, request, asked) for asked in request.topics]


def _response(
    call: Call, request: MetadataRequest, topics: list[MetadataResponseTopic]
) -> MetadataResponse:
    edge, image = call.edge, call.edge.image
    ask_cluster = request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=_brokers(edge, call.connection.listener.name),
        cluster_id=image.cluster_id,
        controller_id=edge.whereabouts.controller_id(),
        topics=topics,
        cluster_authorized_operations=(
            operations_told(call, Resource.CLUSTER) if ask_cluster else OPERATIONS_NOT_ASKED
        ),
    )


def _brokers(edge: Edge, listener: str) -> list[MetadataResponseBroker]:
    return [
        MetadataResponseBroker(
            node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack
        )
        for broker in edge.whereabouts.live_brokers()
        if (endpoint := broker.endpoint(listener)) is not None
    ]


def _asked(
    call: Call, request: MetadataRequest, asked: MetadataRequestTopic
) -> MetadataResponseTopic:
    image = call.edge.image
    if asked.topic_id != ZERO_UUID:
        topic = image.topics.get(asked.topic_id)
        if topic is not None and not _is_hidden(call, topic.name):
            return _topic(call, request, topic)
        # Before version 12 a name cannot be null.
        no_name = None if call.version >= 12 else ""
        error = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=error, name=no_name, topic_id=asked.topic_id)
    name = asked.name or ""
    if not call.demand(ApiKey.METADATA, Operation.DESCRIBE, Resource.TOPIC, name):
        # Whether there is such a topic makes no difference.
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(
            error_code=error, name=name, is_internal=name in INTERNAL_TOPICS
        )
    topic = image.topic(name)
    if topic is not None:
        return _topic(call, request, topic)
    is_legal = is_legal_topic_name(name)
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=error, name=name, is_internal=name in INTERNAL_TOPICS)


def _topic(call: Call, request: MetadataRequest, topic: Topic) -> MetadataResponseTopic:
    asks = request.include_topic_authorized_operations
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(call, index, topic.partitions[index]) for index in sorted(topic.partitions)
        ],
        topic_authorized_operations=(
            operations_told(call, Resource.TOPIC, topic.name) if asks else OPERATIONS_NOT_ASKED
        ),
    )


def _partition(call: Call, index: int, state: PartitionState) -> MetadataResponsePartition:
    edge = call.edge
    error, leader_id = ErrorCode.NONE, state.leader
    leader = edge.image.brokers.get(state.leader)
    if leader is None or leader.fenced:
        error, leader_id = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif leader.endpoint(call.connection.listener.name) is None:
        leader_id = NO_LEADER
        error = ErrorCode.LISTENER_NOT_FOUND
        if call.version < LISTENER_NOT_FOUND_FROM:
            error = ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader_id,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=replicas_offline(edge.image, state.replicas),
    )
