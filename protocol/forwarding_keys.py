"""The settings of a topic that name other topics to which its records are forwarded. Pure."""

from collections.abc import Mapping
from typing import Final

from .routes import parse_routes

TARGET: Final = "minikafka.delay.target"
RULES: Final = "minikafka.route.rules"
DEAD_LETTERS: Final = "minikafka.deadletter.topic"


def named_topics(config: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the topics that a topic with this `config` forwards to, each with the key naming it.

    Raise ValueError if its rules cannot be read.
    """
    found = [(key, config[key]) for key in (TARGET, DEAD_LETTERS) if config.get(key)]
    if config.get(RULES):
        found.extend((RULES, name) for name in parse_routes(config[RULES]).topics)
    return found
