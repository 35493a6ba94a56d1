"""Checks settings about what becomes of records, before they are written: targets, and expiry."""

from collections.abc import Container, Mapping

from ...protocol.control.image import ConfigResource
from ...protocol.control.records import TOPIC
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.routes import parse_routes
from ...protocol.types import INTERNAL_TOPICS

TARGET = "minikafka.delay.target"
EXPIRY = "minikafka.ttl."
RULES = "minikafka.route.rules"
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

    Its target, the topics of its rules and its topic for dead letters must be among the `known`
    topics, must not be internal and must not lead back to the topic itself by the `configs` of the
    cluster. One that is in the `old` config of the topic is not judged again: other settings can be
    changed after the target was deleted.
    """
    for key, name in _named(config):
        if (key, name) in _named(old):
            continue
        if name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}={name}: an internal topic")
        if name not in known and name != topic:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}={name}: there is no such topic")
        circle = _way(name, topic, configs)
        if circle:
            way = " -> ".join([topic, *circle])
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}: a circle of targets: {way}")


def _named(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the topics that a topic forwards to, each with the key that names it."""
    found = [(key, config[key]) for key in (TARGET, DEAD_LETTERS) if config.get(key)]
    if config.get(RULES):
        found.extend((RULES, name) for name in parse_routes(config[RULES]).topics)
    return found


def _way(
    start: str, goal: str, configs: Mapping[ConfigResource, Mapping[str, str]]
) -> list[str] | None:
    """Return a way along targets from one topic to another; None if there is none."""
    ways = [[start]]
    seen = {start: None}
    while ways:
        way = ways.pop()
        if way[-1] == goal:
            return way
        for key, name in _named(configs.get((TOPIC, way[-1]), {})):
            if key != DEAD_LETTERS and name not in seen:
                seen[name] = None
                ways.append([*way, name])
    return None
