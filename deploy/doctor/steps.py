"""Limits the time of each question to the cluster, and remembers those without an answer."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Final, TypeVar

from ...client.errors import UnsupportedVersion
from ...runtime.errors import MinikafkaError
from .facts import Skipped

T = TypeVar("T")

AT_ONCE: Final = 32
"""The most questions that wait for an answer at the same time."""


class Steps:
    """Asks questions, each within `limit_ms`."""

    def __init__(self, limit_ms: int) -> None:
        self.limit_ms = limit_ms
        self.skipped: list[Skipped] = []

    @property
    def most_ms(self) -> int:
        """The time limit in ms for each broker in a question to many brokers.

        It is below `limit_ms`, so that one silent broker does not lose the answers of the others.
        """
        return max(self.limit_ms * 4 // 5, 1)

    def skip(self, what: str, why: str, *, is_supported: bool = True) -> None:
        """Record that something could not be examined, and why."""
        self.skipped.append(Skipped(what, why, is_supported))

    async def take(self, what: str, question: Awaitable[T], default: T) -> T:
        """Await the answer within the limit; note a failure under `what`, and return `default`."""
        try:
            async with asyncio.timeout(self.limit_ms / 1000):
                return await question
        except UnsupportedVersion as error:
            self.skip(what, str(error), is_supported=False)
        except TimeoutError:
            self.skip(what, f"no answer within {self.limit_ms} ms")
        except (MinikafkaError, OSError) as error:
            self.skip(what, str(error))
        return default


async def all_of(questions: Iterable[Awaitable[T]]) -> list[T]:
    """Await all questions, at most AT_ONCE at the same time; return the answers in order."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(question: Awaitable[T]) -> T:
        async with gate:
            return await question

    return list(await asyncio.gather(*map(one, questions)))
