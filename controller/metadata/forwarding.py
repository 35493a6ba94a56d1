"""Checks settings about what becomes of records: targets, and what internal topics may have."""

from collections.abc import Container, Mapping

from ...protocol.audit import BATCH_MAX
from ...protocol.control.image import ConfigResource
from ...protocol.control.records import TOPIC
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.forwarding_keys import TARGET, named_topics
from ...protocol.header_targets import BY_HEADER
from ...protocol.types import AUDIT_TOPIC, INTERNAL_TOPICS

FATES = ("minikafka.ttl.", "minikafka.delay.", "minikafka.route.", "minikafka.deadletter.")
"""The beginnings of settings by which records expire or are forwarded."""
MAX_BYTES = "max.message.bytes"
REPLACE, NONE = "minikafka.delay.replace", "none"


def check_internal(topic: str, config: Mapping[str, str], old: Mapping[str, str]) -> None:
    """Raise ApiError INVALID_CONFIG if an internal topic gets settings that it must not have.

    Its records are the cluster's own state, such as committed offsets: they do not expire and are
    not forwarded. What is in the `old` config already is not judged again. The audit topic takes
    every batch of the audit, so that its bound must not be lowered.
    """
    if topic not in INTERNAL_TOPICS:
        return
    for key, value in config.items():
        if key.startswith(FATES) and old.get(key) != value:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}: {topic} is an internal topic")
    before, after = old.get(MAX_BYTES), config.get(MAX_BYTES)
    if topic == AUDIT_TOPIC and before != after and int(after or 0) < BATCH_MAX:
        detail = f"{MAX_BYTES}: {topic} needs at least {BATCH_MAX}, set for itself"
        raise ApiError(ErrorCode.INVALID_CONFIG, detail)


def check_targets(
    topic: str,
    config: Mapping[str, str],
    old: Mapping[str, str],
    known: Container[str],
    configs: Mapping[ConfigResource, Mapping[str, str]],
) -> None:
    """Raise ApiError INVALID_CONFIG if a topic with this `config` cannot forward.

    Its target, the topics of its rules and its topic for dead letters must be among the `known`
    topics, must not be internal, must not lead back to the topic itself by the `configs` of the
    cluster, and must not let its records name their targets. One that is in the `old` config of the
    topic is not judged again: other settings can be changed after the target was deleted. Nor may
    the rule change by which records replace others while some wait, because replicas would differ.
    """
    if old.get(TARGET) and config.get(REPLACE, NONE) != old.get(REPLACE, NONE):
        detail = f"{REPLACE}: records wait by the old rule: remove {TARGET} first"
        raise ApiError(ErrorCode.INVALID_CONFIG, detail)
    for key, name in named_topics(config):
        if (key, name) in named_topics(old):
            continue
        if name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}={name}: an internal topic")
        if name not in known and name != topic:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}={name}: there is no such topic")
        circle = _way(name, topic, configs)
        if circle:
            way = " -> ".join([topic, *circle])
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{key}: a circle of targets: {way}")
        if configs.get((TOPIC, name), {}).get(TARGET) == BY_HEADER:
            detail = f"{key}={name}: nothing is forwarded to a topic with {TARGET}={BY_HEADER}"
            raise ApiError(ErrorCode.INVALID_CONFIG, detail)


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
        for _, name in named_topics(configs.get((TOPIC, way[-1]), {})):
            if name not in seen:
                seen[name] = None
                ways.append([*way, name])
    return None
