"""`minikafka get-offsets`: print partitions' first or last offsets, or those at a time."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ..errors import ClientError
from .common import administer, bootstrap_server, command_config, say

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error occurred"
TIMES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
}
LOWEST_TIME = -5


@dataclass(frozen=True, slots=True)
class Rule:
    """A filter of topics and of their partitions, from `first` up to but without `end`.

    Either bound may be None, which means no bound.
    """

    topic: str | None
    """A regular expression for the whole name; None matches every topic."""
    first: int = 0
    end: int | None = None

    def keeps(self, partition: TopicPartition) -> bool:
        """True if the partition passes the filter."""
        if self.topic is not None and re.fullmatch(self.topic, partition.topic) is None:
            return False
        if partition.partition < self.first:
            return False
        return self.end is None or partition.partition < self.end


@click.command("get-offsets")
@bootstrap_server
@click.option("--topic", metavar="REGEX", help="Topics, as a regular expression. [default: all]")
@click.option("--partitions", metavar="N,...", help="Only these partitions, with --topic.")
@click.option(
    "--topic-partitions",
    metavar="T:0,T:1-3,...",
    help="Topics (regular expressions) and partitions: t, t:0, t:0-2, t:-2, t:3-; "
    "ranges exclude the upper bound.",
)
@click.option(
    "--time",
    "when",
    default="latest",
    metavar="TIME",
    help="ms since 1970, or latest, earliest, max-timestamp, earliest-local, latest-tiered.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave internal topics out.")
@command_config()
def get_offsets(
    bootstrap: str,
    topic: str | None,
    partitions: str | None,
    topic_partitions: str | None,
    when: str,
    exclude_internal_topics: bool,
    command_config: Path | None,
) -> None:
    """Print topic:partition:offset for partitions that have an offset at the time of --time.

    \b
    minikafka get-offsets --bootstrap-server localhost:9092 --topic t
    minikafka get-offsets --bootstrap-server localhost:9092 --topic-partitions 't:0,logs.*:1-3' \\
        --time earliest
    """
    if topic_partitions is not None and (topic is not None or partitions is not None):
        raise click.UsageError("--topic-partitions cannot be used with --topic or --partitions")
    rules = rules_of(topic, partitions, topic_partitions)
    timestamp = time_of(when)

    async def act(admin: "Admin") -> int:
        listed = await admin.list_topics(include_internal=not exclude_internal_topics)
        described = await admin.describe_topics([one.name for one in listed])
        found = sorted(
            TopicPartition(name, one.partition)
            for name, description in described.items()
            for one in description.partitions
        )
        meant = [one for one in found if any(rule.keeps(one) for rule in rules)]
        if not meant:
            say("Could not match any topic-partitions with the specified filters")
            return 1
        failed = False
        for partition in meant:
            try:
                answer = (await admin.list_offsets({partition: timestamp}))[partition]
            except ClientError as error:
                where = f"{partition.topic}-{partition.partition}"
                say(f"Skip getting offsets for topic-partition {where} due to error: {error}")
                failed = True
            else:
                offset = "" if answer.offset < 0 else answer.offset
                print(f"{partition.topic}:{partition.partition}:{offset}")
        return 1 if failed else 0

    administer(act, COMPLAINT, bootstrap, command_config)


def time_of(text: str) -> int:
    """Parse --time; raise ConfigError if the text is not a time."""
    if text.lower() in TIMES:
        return TIMES[text.lower()]
    try:
        timestamp = int(text)
    except ValueError:
        timestamp = LOWEST_TIME - 1
    if timestamp < LOWEST_TIME:
        names = ", ".join(TIMES)
        raise ConfigError("--time", text, f"must be ms since 1970 or one of {names}")
    return timestamp


def rules_of(topic: str | None, partitions: str | None, topic_partitions: str | None) -> list[Rule]:
    """Parse the filters; a partition is selected if one of them keeps it.

    Raise ConfigError if a filter is malformed.
    """
    if topic_partitions is not None:
        return [_rule(text.strip()) for text in topic_partitions.split(",")]
    if topic is not None:
        _checked(topic, "--topic")
    if partitions is None:
        return [Rule(topic)]
    try:
        indexes = [int(index) for index in partitions.split(",")]
    except ValueError:
        raise ConfigError("--partitions", partitions, "must be numbers, as 0,1") from None
    return [Rule(topic, index, index + 1) for index in indexes]


def _rule(text: str) -> Rule:
    option = "--topic-partitions"
    topic, colon, bounds = text.rpartition(":")
    if not colon:
        return Rule(_checked(text, option))
    name = _checked(topic, option) if topic else None
    found = re.fullmatch(r"(\d*)(-?)(\d*)", bounds)
    if found is None or bounds == "-":
        raise ConfigError(option, text, "must look like t, t:0, t:0-2, t:-2 or t:3-")
    first, dash, end = found.groups()
    if not dash:
        return Rule(name, int(first), int(first) + 1) if first else Rule(name)
    return Rule(name, int(first or 0), int(end) if end else None)


def _checked(expression: str, option: str) -> str:
    try:
        re.compile(expression)
    except re.error as error:
        raise ConfigError(option, expression, f"is no regular expression: {error}") from None
    return expression
