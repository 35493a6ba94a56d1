"""Checks settings about what becomes of records, before they are written: targets, and expiry."""

from collections.abc import Container, Mapping

from ...protocol.control.image import ConfigResource
from ...protocol.control.records import TOPIC
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.types import INTERNAL_TOPICS

TARGET = "minikafka.delay.target"
EXPIRY = "minikafka.ttl."
DEAD_LETTERS = "minikafka.deadletter.topic"


def check_expiry(topic: str, config: Mapping[str, str]) -> None:
    """Raise ApiError INVALID_CONFIG if records of an internal topic were to expire.

    They are the cluster's own state, such as committed offsets.
    """
    for key in config:
        if key.startswith(EXPIRY) and topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}: {topic} is an internal topic")


def check_targets(
    topic: str,
    config: Mapping[str, str],
    old: Mapping[str, str],
    known: Container[str],
    configs: Mapping[ConfigResource, Mapping[str, str]],
) -> None:
    """Raise ApiError INVALID_CONFIG if a topic with this `config` cannot forward.

    Its target and its topic for dead letters must be among the `known` topics, must not be internal
    and must not lead back to the topic itself by the `configs` of the cluster. One that is in the
    `old` config of the topic is not judged again: other settings can be changed after the target
    was deleted.
    """
    for key in (TARGET, DEAD_LETTERS):
        name = config.get(key, "")
        if not name or name == old.get(key):
            continue
        if name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}={name}: an internal topic")
        if name not in known and name != topic:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}={name}: there is no such topic")
        way = [topic]
        while name:
            if name in way:
                circle = " -> ".join([*way, name])
                raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}: a circle of targets: {circle}")
            way.append(name)
            name = configs.get((TOPIC, name), {}).get(TARGET, "")
