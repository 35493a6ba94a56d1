"""Fakes that clean up after themselves."""

from collections.abc import Callable, Iterator

import pytest

from .edge_support import FakeBroker, FakePartition

MakeBroker = Callable[..., FakeBroker]


@pytest.fixture
def make_broker() -> Iterator[MakeBroker]:
    made: list[FakeBroker] = []

    def make(*partitions: FakePartition, **settings: str) -> FakeBroker:
        made.append(FakeBroker(*partitions, **settings))
        return made[-1]

    yield make
    for broker in made:
        broker.close()
