"""Creates the topics of a group's retries, and checks those that are there.

With an order of keys, partition n of each of them belongs to partition n of the topics that the
group reads: records come back by the same number, to the member that reads it.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ...protocol.errors import ErrorCode
from ...runtime.errors import ConfigError
from ..admin.admin import Admin
from ..admin.config_types import ConfigResource
from ..admin.topic_types import NewTopic
from ..errors import AdminError
from .retry_policy import RetryPolicy, RetryTopics

PARTITION: Final = "minikafka.delay.partition"


async def prepare(
    admin: Admin, topics: RetryTopics, policy: RetryPolicy, read: Sequence[str]
) -> None:
    """Create the topics that are not there; `read` are the topics that the group reads.

    Raise ConfigError, with an order of keys, if the topics do not fit together.
    """
    is_ordered = policy.order == "key"
    count = await _count(admin, read) if is_ordered else policy.partitions
    wanted: dict[str, NewTopic] = {}

    def want(name: str, partitions: int, configs: Mapping[str, str]) -> None:
        wanted[name] = NewTopic(name, partitions, policy.replication_factor, configs=configs)

    want(topics.again, count, {})
    want(topics.dead_letters, policy.partitions, {})
    waits = {
        "minikafka.delay.target": topics.again,
        "minikafka.deadletter.topic": topics.dead_letters,
        "minikafka.delay.deadletter.on.expiry": "true",
    }
    want(topics.retry, count, waits | ({PARTITION: "same"} if is_ordered else {}))
    if is_ordered:
        want(topics.blocked, count, {"cleanup.policy": "compact"})
    if policy.creates_topics:
        await _create(admin, [*wanted.values()])
    if is_ordered:
        await _check(admin, topics, policy, count)


async def _create(admin: Admin, wanted: Sequence[NewTopic]) -> None:
    names = dict.fromkeys(each.name for each in await admin.list_topics())
    for topic in wanted:
        if topic.name in names:
            continue
        try:
            await admin.create_topics([topic])
        except AdminError as error:
            if error.errors[topic.name].code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


async def _count(admin: Admin, read: Sequence[str]) -> int:
    """Return the number of partitions that all topics have which the group reads."""
    found = await admin.describe_topics(read)
    counts = {name: len(each.partitions) for name, each in found.items()}
    if len(dict.fromkeys(counts.values())) != 1:
        raise ConfigError(
            "topics", counts, 'order="key" needs topics that have equally many partitions'
        )
    return next(iter(counts.values()))


async def _check(admin: Admin, topics: RetryTopics, policy: RetryPolicy, count: int) -> None:
    ours = (topics.again, topics.retry, topics.blocked)
    found = await admin.describe_topics(ours)
    few = {name: count for name, each in found.items() if len(each.partitions) < count}
    if few and policy.creates_topics:
        await admin.create_partitions(few)
    elif few:
        raise ConfigError("topics", [*few], f'order="key" needs {count} partitions of each')
    large = {name: len(each.partitions) for name, each in found.items()}
    if any(each > count for each in large.values()):
        why = f'order="key" needs {count} partitions of each, as the topics that are read have'
        raise ConfigError("topics", large, why)
    retry = ConfigResource.topic(topics.retry)
    said = (await admin.describe_configs([retry], keys=[PARTITION]))[retry]
    if said[PARTITION].value != "same":
        why = f'order="key" needs same in {topics.retry}: change it while nothing waits there'
        raise ConfigError(PARTITION, said[PARTITION].value, why)
