"""DeleteTopics: delete topics by name, or from version 6 on by id as well."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, Uuid, field, nested, request, response
from ..types import ZERO_UUID


@nested
class DeleteTopicState:
    """A topic, given either by its name or by its id."""

    name: String | None = field(default=None)
    topic_id: Uuid = field(default=ZERO_UUID)


@request(ApiKey.DELETE_TOPICS, versions="1-6", flexible="4+")
class DeleteTopicsRequest:
    """Delete topics; each topic succeeds or fails on its own."""

    topics: list[DeleteTopicState] = field("6+", default=[])
    topic_names: list[String] = field("1-5", default=[])
    timeout_ms: Int32


@nested
class DeletableTopicResult:
    """The result for one topic."""

    name: String | None = field(nullable="6+")
    """The topic's name; None if the request gave an unknown id."""
    topic_id: Uuid = field("6+", default=ZERO_UUID)
    error_code: Int16 = field(default=0)
    error_message: String | None = field("5+", default=None)


@response(ApiKey.DELETE_TOPICS)
class DeleteTopicsResponse:
    """One result for each topic."""

    throttle_time_ms: Int32 = field(default=0)
    responses: list[DeletableTopicResult]
