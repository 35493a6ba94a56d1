"""Scenarios R: dead letters are requeued and discarded, each once, whatever is interrupted."""

from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from minikafka.client.admin.admin import Admin
from minikafka.client.consumer.dead_letters import (
    DeadLetters,
    LettersRefused,
    Settled,
    to_group,
    to_origin,
)
from minikafka.client.consumer.letter_filter import choice_of
from minikafka.client.consumer.letter_progress import LetterProgress
from minikafka.client.consumer.retry_batch import Raw
from minikafka.client.consumer.retry_headers import (
    REQUEUED,
    Failure,
    dead_letter_headers,
    truncated,
)
from minikafka.client.errors import ProducerFenced
from minikafka.client.group_types import OffsetAndMetadata
from minikafka.client.producer.producer import Producer
from minikafka.protocol.records.record_batch import Headers
from minikafka.protocol.types import TopicPartition

from ..simulation.stage import A, Client, Stage, staged
from .delay_stage import headers_of, in_target

DEAD = "dlq.billing"
AGAIN = "billing.again"
HERE = TopicPartition(DEAD, 0)


def story_of(number: int, error: Exception | None = None) -> Headers:
    failure = Failure("orders", 0, number, "billing", 50, error or KeyError("price"))
    return dead_letter_headers([], failure)


async def buried(stage: Stage, *letters: tuple[bytes, Headers]) -> None:
    """Make the topics, and the letters in transactions of ten, whose markers lie between them."""
    for topic in (DEAD, AGAIN):
        await stage.create_topic(topic, [[1, 2, 3]])
    client = await stage.client()

    async def bury() -> None:
        bootstrap, runtime = stage.cluster.bootstrap, client.runtime
        async with Producer(
            bootstrap_servers=bootstrap, runtime=runtime, transactional_id="undertaker", linger_ms=0
        ) as producer:
            for first in range(0, len(letters), 10):
                async with producer.transaction():
                    for value, headers in letters[first : first + 10]:
                        producer.send(DEAD, value, value, headers=headers)

    await client.ask(bury)


async def at_letters(
    stage: Stage, do: Callable[[DeadLetters], Awaitable[A]], client: Client | None = None
) -> A:
    """Do something with the dead letters, in a process of its own."""
    here = client or await stage.client()

    async def ask() -> A:
        bootstrap, runtime = stage.cluster.bootstrap, here.runtime
        async with Admin(bootstrap_servers=bootstrap, runtime=runtime) as admin:
            return await do(DeadLetters(admin, DEAD, runtime))

    return await here.ask(ask)


async def values(letters: DeadLetters, *, is_settled_too: bool = False) -> list[bytes | None]:
    return [one.value async for one in letters.read(is_settled_too=is_settled_too)]


async def again(stage: Stage) -> list[bytes | None]:
    return [one.value for one in await in_target(stage, topic=AGAIN)]


def every(_: Raw) -> bool:
    return True


@pytest.mark.parametrize("killed_after_ms", [0, 3, 6, 9, 12, 15, 18, 24, 30, 60])
def test_r_51_a_requeue_that_is_interrupted_and_repeated_moves_each_letter_once(
    killed_after_ms: int,
) -> None:
    @staged()
    async def story(stage: Stage) -> None:
        letters = [(b"%04d" % number, story_of(number)) for number in range(1_000)]
        await buried(stage, *letters)
        client = await stage.client()

        async def requeue() -> None:
            await at_letters(stage, lambda one: one.requeue(every, to_group), client)

        beside = stage.world.loop.create_task(requeue())
        await stage.sleep(killed_after_ms / 1_000)
        stage.world.kill(client.process)
        beside.cancel()
        await at_letters(stage, lambda one: one.requeue(every, to_group))
        assert Counter(await again(stage)) == Counter(value for value, _ in letters)
        assert await at_letters(stage, values) == []
        assert await at_letters(stage, lambda one: one.requeue(every, to_group)) == Settled(0, 0)

    story()


@staged()
async def test_r_51_letters_are_taken_out_of_the_middle_and_the_others_stay_open(
    stage: Stage,
) -> None:
    errors = [KeyError("price"), ValueError("odd")]
    letters = [(b"%02d" % number, story_of(number, errors[number % 2])) for number in range(25)]
    await buried(stage, *letters)
    odd = choice_of(["exception~ValueError"])
    assert await at_letters(stage, lambda one: one.requeue(odd, to_group)) == Settled(12, 0)
    left = [value for value, _ in letters[::2]]
    assert await at_letters(stage, values) == left
    assert await again(stage) == [value for value, _ in letters[1::2]]
    assert await at_letters(stage, lambda one: one.requeue(odd, to_group)) == Settled(0, 0)

    def first(letter: Raw) -> bool:
        return letter.value == b"00"

    assert await at_letters(stage, lambda one: one.discard(first)) == Settled(1, 0)
    assert await at_letters(stage, values) == left[1:]
    everything = await at_letters(stage, lambda one: values(one, is_settled_too=True))
    assert everything == [value for value, _ in letters]
    assert await at_letters(stage, lambda one: one.requeue(every, to_group)) == Settled(12, 0)
    assert Counter(await again(stage)) == Counter(value for value, _ in letters[1:])
    (requeued, *_) = await in_target(stage, topic=AGAIN)
    assert headers_of(requeued)[REQUEUED] == b"1"


@staged()
async def test_a_letter_without_its_value_and_one_without_a_story_stay(stage: Stage) -> None:
    await buried(stage, (b"large", truncated(story_of(1))), (b"whole", story_of(2)))
    assert await at_letters(stage, lambda one: one.requeue(every, to_group)) == Settled(1, 1)
    assert await at_letters(stage, values) == [b"large"]
    assert await again(stage) == [b"whole"]
    sender = await stage.producer()
    await sender.send(DEAD, b"foreign")
    await sender.close()
    for target in (to_group, to_origin):
        with pytest.raises(LettersRefused, match=r"dlq\.billing-0@3 names no"):
            await at_letters(stage, lambda one, target=target: one.requeue(every, target))  # type: ignore[misc]
    assert await at_letters(stage, values) == [b"large", b"foreign"]
    found = await at_letters(stage, lambda one: one.at(0, 3))
    assert found.value == b"foreign"
    with pytest.raises(LettersRefused, match="no dead letter is there"):
        await at_letters(stage, lambda one: one.at(0, 2))
    with pytest.raises(LettersRefused, match="no dead letter is there"):
        await at_letters(stage, lambda one: one.at(0, 99))


@staged()
async def test_letters_go_back_to_the_topics_they_came_from_whoever_has_buried_them(
    stage: Stage,
) -> None:
    connect: Headers = [("__connect.errors.topic", b"orders"), ("mine", b"1")]
    spring: Headers = [("kafka_dlt-original-topic", b"orders")]
    await stage.create_topic("orders", [[1, 2, 3]])
    await buried(stage, (b"ours", story_of(1)), (b"connect", connect), (b"spring", spring))
    assert await at_letters(stage, lambda one: one.requeue(every, to_origin)) == Settled(3, 0)
    back = await in_target(stage, topic="orders")
    assert sorted(each.value or b"" for each in back) == [b"connect", b"ours", b"spring"]
    assert all(headers_of(each)[REQUEUED] == b"1" for each in back)
    assert await again(stage) == []
    assert await at_letters(stage, values) == []


@staged()
async def test_a_new_run_ends_one_that_still_goes_on(stage: Stage) -> None:
    await buried(stage, *[(b"%d" % number, story_of(number)) for number in range(3)])
    client = await stage.client()

    async def while_another_runs(letters: DeadLetters) -> None:
        async with letters._producer() as producer:
            progress = await letters._progress()
            await at_letters(stage, lambda one: one.requeue(every, to_group))

            async def as_it_was() -> dict[TopicPartition, LetterProgress]:
                return progress

            letters._progress = as_it_was  # type: ignore[method-assign]
            await letters._settle_with(producer, every, to_group)

    with pytest.raises(ProducerFenced):
        await at_letters(stage, while_another_runs, client)
    assert await again(stage) == [b"0", b"1", b"2"]


@staged()
async def test_progress_that_somebody_else_has_committed_is_refused_and_named(stage: Stage) -> None:
    await buried(stage, (b"a", story_of(1)))
    strange = OffsetAndMetadata(0, "mine")
    await stage.admin(lambda admin: admin.alter_group_offsets(f"__dlq-{DEAD}", {HERE: strange}))
    with pytest.raises(LettersRefused, match=r"__dlq-dlq\.billing.*'mine'"):
        await at_letters(stage, values)
