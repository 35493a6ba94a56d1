"""The settings of a topic that name other topics to which its records are forwarded. Pure."""

from collections.abc import Mapping
from typing import Final

from .header_targets import BY_HEADER, is_pattern
from .routes import parse_routes

TARGET: Final = "minikafka.delay.target"
TARGETS: Final = "minikafka.delay.targets"
AUTHORIZE: Final = "minikafka.delay.authorize"
RULES: Final = "minikafka.route.rules"
DEAD_LETTERS: Final = "minikafka.deadletter.topic"


def named_topics(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the topics that a topic with this `config` forwards to, each with the key naming it.

    Patterns of topics are left out. Raise ValueError if its rules cannot be read.
    """
    found = [(key, config[key]) for key in (TARGET, DEAD_LETTERS) if config.get(key)]
    found = [each for each in found if each != (TARGET, BY_HEADER)]
    listed = [each.strip() for each in config.get(TARGETS, "").split(",")]
    found.extend((TARGETS, name) for name in listed if name and not is_pattern(name))
    if config.get(RULES):
        found.extend((RULES, name) for name in parse_routes(config[RULES]).topics)
    return found
