"""Verifies partitions of transactions with their coordinators, for partition leaders (KIP-890).

Before a transaction begins in its partition, a leader asks whether the partition was added to the
transaction. For producers that do not add partitions themselves, the question also adds the
partition. If this broker is the coordinator, no request is sent. Any other coordinator is sent one
request at a time, with all questions that have come up since the last one. The leader acts on the
answer.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...protocol.control.image import MetadataImage
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ...runtime.waiting import end_tasks
from ..deadlines import Deadlines
from ..peers import PeerFailed, Peers
from .keys import TRANSACTIONS_TOPIC
from .transaction.decisions import AddPartitions, Decision
from .transaction.records import by_topic
from .transaction.transaction import BUMPING_VERSION

if TYPE_CHECKING:
    from .transactions import Transactions

LANE = "verification"
UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE

Errors = Mapping[TopicPartition, ErrorCode]
Verified = Callable[[Errors], None]
"""Called once, perhaps before `ask` returns, with each partition's error. NONE means that the
partition is in the transaction, TRANSACTION_ABORTABLE that it is not. CONCURRENT_TRANSACTIONS and
a coordinator's absence are retriable; INVALID_PRODUCER_ID_MAPPING and PRODUCER_FENCED are not."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """One leader's question about one transaction."""

    asked: AddPartitions
    adds: bool
    """True if the coordinator is to add the partitions to the transaction."""
    give_up_ms: int
    """The time (monotonic ms) until which the question waits for an earlier transaction to end."""
    done: Verified

    def refuse(self, error: ErrorCode) -> None:
        """Give every partition this error."""
        self.done(dict.fromkeys(self.asked.partitions, error))


class TransactionQuestions:
    """The questions that wait for an answer of a coordinator."""

    def __init__(
        self,
        runtime: Runtime,
        transactions: "Transactions",
        deadlines: Deadlines,
        peers: Peers,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._runtime = runtime
        self._transactions = transactions
        self._deadlines = deadlines
        self._peers = peers
        self._image = image
        self._queued: dict[int, list[Question]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def ask(self, asked: AddPartitions, done: Verified, *, adds: bool = False) -> None:
        """Ask whether partitions are in a transaction; if `adds`, also add them to it."""
        if adds:
            # As it would be in the request to another broker: see AddPartitionsToTxn.
            asked = replace(asked, client_version=BUMPING_VERSION)
        wait_ms = self._transactions.config.verification_retry_max_ms if adds else 0
        give_up_ms = self._runtime.monotonic_ms() + wait_ms
        self._ask(Question(asked, adds, give_up_ms, done))

    async def close(self) -> None:
        """Drop all questions, because the broker stops and its clients are gone."""
        self._queued.clear()
        tasks, self._tasks = self._tasks, {}
        await end_tasks(tasks.values())

    def _ask(self, question: Question) -> None:
        asked = question.asked
        index = self._transactions.shards.index_of(asked.transactional_id)
        topic = self._image().topic(TRANSACTIONS_TOPIC)
        if index is None or topic is None or (leader := topic.partitions[index].leader) < 0:
            question.refuse(UNAVAILABLE)
        elif not isinstance(self._transactions.shards.at(index), ErrorCode):
            self._ask_here(question)
        else:
            self._queued.setdefault(leader, []).append(question)
            self._send_to(leader)

    def _ask_here(self, question: Question) -> None:
        asked = question.asked
        if not question.adds:
            self._answer(question, self._transactions.verify_partitions(asked))
            return

        def done(decision: Decision) -> None:
            self._answer(question, dict.fromkeys(asked.partitions, decision.error))

        patience_ms = max(0, question.give_up_ms - self._runtime.monotonic_ms())
        self._transactions.add_partitions(asked, done, patience_ms)

    def _answer(self, question: Question, errors: Errors) -> None:
        retry_ms = self._runtime.monotonic_ms() + self._transactions.config.verification_retry_ms
        concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in errors.values()
        if concurrent and retry_ms <= question.give_up_ms:
            # The earlier transaction ends within a round trip; the producer would retry later.
            self._deadlines.at(retry_ms, lambda: self._ask(question))
        else:
            question.done(errors)

    def _send_to(self, leader: int) -> None:
        if leader not in self._tasks:
            name = f"verification at broker {leader}"
            self._tasks[leader] = self._runtime.spawn(self._run(leader), name)

    async def _run(self, leader: int) -> None:
        while self._queued.get(leader):
            batch = self._take(leader)
            try:
                answer = await self._peers.ask(leader, _request(batch), lane=LANE)
            except PeerFailed:
                for question in batch.values():
                    question.refuse(UNAVAILABLE)
            else:
                errors = _errors(answer)
                for transactional_id, question in batch.items():
                    found = errors.get(transactional_id, {})
                    partitions = question.asked.partitions
                    self._answer(
                        question, {each: found.get(each, UNAVAILABLE) for each in partitions}
                    )
        del self._tasks[leader]

    def _take(self, leader: int) -> dict[str, Question]:
        """Return the questions of the next request, which can name a transactional id only once."""
        batch: dict[str, Question] = {}
        later: list[Question] = []
        for question in self._queued.pop(leader):
            if question.asked.transactional_id in batch:
                later.append(question)
            else:
                batch[question.asked.transactional_id] = question
        if later:
            self._queued[leader] = later
        return batch


def _request(batch: Mapping[str, Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=question.asked.producer_id,
                producer_epoch=question.asked.epoch,
                verify_only=not question.adds,
                topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes)
                    for topic, indexes in by_topic(question.asked.partitions).items()
                ],
            )
            for transactional_id, question in batch.items()
        ]
    )


def _errors(response: AddPartitionsToTxnResponse) -> dict[str, dict[TopicPartition, ErrorCode]]:
    """Return the errors by transactional id and partition; empty if the request was refused."""
    return {
        result.transactional_id: {
            TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
            for topic in result.topic_results
            for each in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
