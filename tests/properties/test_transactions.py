"""Transaction coordinators under producers that come, go, repeat and are late, and under failovers.

Invariants 22 and 23: no two producers hold the same id and epoch, and the outcome of a transaction
never changes; what its producer was told of it is what the markers say.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.coordinator.transaction.decisions import Decision
from minikafka.broker.coordinator.transaction.transaction import EPOCH_MAX, State
from minikafka.protocol.errors import ErrorCode

from ..broker.transaction_support import NAME, A, B, Coordinator, at_epoch

pytestmark = pytest.mark.slow

OK = ErrorCode.NONE
LATE_EPOCHS = (0, 1, 32_762, 32_766)
ACTIONS = (
    *("begin", "go on", "add", "commit", "abort", "repeat", "opposite", "late"),
    *("written", "overdue", "fail over", "broken", "mended"),
)


@dataclass
class Producer:
    """A process with the transactional id, and what it knows."""

    number: int
    producer_id: int = -1
    epoch: int = -1
    last: tuple[int, int, bool] | None = None
    """Its newest EndTxn: id, epoch, commit."""
    old: tuple[int, int, bool] | None = None
    """One from before that the network still holds."""


class World:
    """The coordinator, some producers, and everything that was ever promised."""

    def __init__(self, epoch: int, level: int) -> None:
        self.coordinator = at_epoch(epoch, level) if epoch else Coordinator(level)
        self.level = level
        self.owners: dict[tuple[int, int], int] = {}
        self.outcomes: dict[tuple[int, int], State] = {}
        """By id and epoch of the markers; with the epoch bump each transaction has its own."""
        self.told: dict[tuple[int, int], bool] = {}
        """What a producer was told of the transaction under its id and epoch."""

    def act(self, action: str, producer: Producer) -> None:
        coordinator = self.coordinator
        present = coordinator.ledger.get(NAME)
        if action == "begin":
            producer.last = producer.old = None
            self.granted(producer, coordinator.init())
        elif action == "go on" and producer.epoch >= 0:
            self.granted(producer, coordinator.init(producer.producer_id, producer.epoch))
        elif action == "add" and producer.epoch >= 0:
            coordinator.add(producer.producer_id, producer.epoch, A, B)
        elif action in ("commit", "abort") and producer.epoch >= 0:
            if producer.last is not None and producer.last[:2] != (
                producer.producer_id,
                producer.epoch,
            ):
                producer.old = producer.last
            producer.last = producer.producer_id, producer.epoch, action == "commit"
            self.end(producer, producer.last)
        elif action == "repeat" and producer.last is not None:
            self.end(producer, producer.last)
        elif action == "opposite" and producer.last is not None:
            producer_id, epoch, commit = producer.last
            self.end(producer, (producer_id, epoch, not commit))
        elif action == "late" and producer.old is not None:
            coordinator.end(*producer.old[:2], commit=producer.old[2])
            if self.level == 2:
                assert coordinator.ledger.get(NAME) is present
        elif action == "written" and present is not None and present.state.is_prepared:
            coordinator.complete()
        elif action == "overdue" and present is not None and present.state is State.ONGOING:
            coordinator.time_out()
            assert not coordinator.commits or coordinator.state is State.PREPARE_ABORT
        elif action == "fail over":
            self.coordinator = coordinator.fail_over()
        elif action in ("broken", "mended"):
            coordinator.commits = action == "mended"
        self.check()

    def granted(self, producer: Producer, answer: Decision) -> None:
        """A producer id and epoch are one producer's, for ever."""
        if answer.error is OK:
            identity = answer.producer_id, answer.epoch
            assert self.owners.setdefault(identity, producer.number) == producer.number
            assert 0 <= answer.epoch < EPOCH_MAX
            producer.producer_id, producer.epoch = identity

    def end(self, producer: Producer, asked: tuple[int, int, bool]) -> None:
        producer_id, epoch, commit = asked
        answer = self.coordinator.end(producer_id, epoch, commit=commit)
        if answer.error is not OK:
            return
        if self.level == 2:
            assert self.told.setdefault((producer_id, epoch), commit) is commit
            self.granted(producer, answer)

    def check(self) -> None:
        present = self.coordinator.ledger.get(NAME)
        if present is None or not present.state.is_prepared or self.level < 2:
            return
        decided = self.outcomes.setdefault((present.producer_id, present.epoch), present.state)
        assert decided is present.state
        was_told = self.told.get((present.producer_id, present.epoch - 1))
        assert was_told in (None, present.state is State.PREPARE_COMMIT)


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(LATE_EPOCHS),
    st.sampled_from((1, 2)),
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.sampled_from((0, 0, 1))), min_size=20, max_size=60
    ),
)
def test_no_two_producers_share_an_epoch_and_no_outcome_changes(
    epoch: int, level: int, story: list[tuple[str, int]]
) -> None:
    world = World(epoch, level)
    producers = [Producer(0), Producer(1)]
    if epoch:
        producers[0] = Producer(0, 101, epoch)
        world.owners[101, epoch] = 0
    for number, (action, who) in enumerate(story, start=2):
        if action == "begin":
            # Whoever begins is another process each time.
            producers[who] = Producer(number)
        world.act(action, producers[who])
