"""Drivers whose tasks write transactions that they commit together, batch after batch.

Two drivers fence each other, as a zombie and its successor do. Tasks fail, are tried twice, or are
abandoned. Each attempt at a batch is one transaction of the history.
"""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

from minikafka.aio import Admin, Producer
from minikafka.client.group_types import PreparedTransaction
from minikafka.protocol.commit_groups import member_id
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.runtime.errors import MinikafkaError

from .history import Partition
from .transaction_history import LEDGER, Outcome, Transaction, TransactionHistory
from .transaction_workload import settings
from .world import SimRuntime

if TYPE_CHECKING:
    from .workload import Workload

GROUP = "sink"
ANSWER_MS = 10_000
Tasks = dict[int, Producer]
"""The producers by partition, kept from batch to batch as reused workers keep them."""


class Driver:
    """One process that runs drivers one after the other, and the producers of their tasks."""

    def __init__(self, workload: "Workload", runtime: SimRuntime) -> None:
        self.workload = workload
        self.runtime = runtime
        self.rng = runtime.rng
        self.history: TransactionHistory = workload.transactions
        self.count = 0
        self.partitions = workload.partition_counts[LEDGER]

    async def run(self) -> None:
        """Run drivers; one that fails or dies is followed by another."""
        self.workload.started_count += 1
        while not self.workload.stopping:
            self.count += 1
            try:
                async with AsyncExitStack() as open_clients:
                    await self._one_run(open_clients)
            except MinikafkaError:
                self._note("group-run-failed")
            await asyncio.sleep(6 * self.rng.random())

    async def _one_run(self, open_clients: AsyncExitStack) -> None:
        bootstrap = self.workload.cluster.bootstrap
        admin = await open_clients.enter_async_context(
            Admin(
                bootstrap_servers=bootstrap,
                runtime=self.runtime,
                default_api_timeout_ms=ANSWER_MS,
                request_timeout_ms=2000,
            )
        )
        tasks: Tasks = {}
        state = await admin.init_commit_group(GROUP, f"{self.runtime.name}.{self.count}")
        self.history.note_recorded(state.batch_id)
        batch = state.batch_id + 1
        while not self.workload.stopping and self.rng.random() > 0.1:
            batch = await self._batch(admin, state.generation, batch, tasks, open_clients)
            await asyncio.sleep(self.rng.random())

    async def _batch(
        self,
        admin: Admin,
        generation: int,
        batch: int,
        tasks: Tasks,
        open_clients: AsyncExitStack,
    ) -> int:
        """Make one attempt at a batch; return the number of the batch to do next."""
        self.count += 1
        attempt = self.history.begin_batch(batch, f"{self.runtime.name}-{batch}-{self.count}")
        attempt.outcome = Outcome.ABORTED  # Until somebody is asked to commit it.
        for partition in range(3):
            if partition not in tasks:
                producer = self._producer(member_id(GROUP, partition, 0, 0))
                tasks[partition] = await open_clients.enter_async_context(producer)
        if self.rng.random() < 0.3:
            await self._lose(batch)
        prepared = await asyncio.gather(
            *(self._work(attempt, partition, tasks[partition]) for partition in tasks)
        )
        if self.rng.random() < 0.1:
            self._note("group-left-behind")
            return batch
        attempt.outcome = Outcome.UNKNOWN
        named = [each for each in prepared if each is not None]
        try:
            is_new = await self._commit(admin, generation, batch, named)
        except ApiError as error:
            if error.code is ErrorCode.INVALID_TXN_STATE:
                # A batch that was recorded is known before its transactions are looked at.
                attempt.outcome = Outcome.ABORTED
            self._note("group-refused")
            raise
        if is_new:
            attempt.outcome = Outcome.COMMITTED
        self.history.note_recorded(batch)
        self._note("group-committed" if is_new else "group-replayed")
        # Who dies before it has noted that does the whole batch again.
        return batch if self.rng.random() < 0.1 else batch + 1

    async def _commit(
        self, admin: Admin, generation: int, batch: int, named: list[PreparedTransaction]
    ) -> bool:
        """Commit; sometimes stop waiting for the answer at a random moment, and ask again."""
        if self.rng.random() < 0.2:
            with suppress(TimeoutError):
                async with asyncio.timeout(0.01 * self.rng.random()):
                    return await admin.commit_group(GROUP, generation, batch, named)
            self._note("group-unanswered")
        return await admin.commit_group(GROUP, generation, batch, named)

    async def _work(
        self, attempt: Transaction, partition: int, producer: Producer
    ) -> PreparedTransaction | None:
        await producer.begin_transaction()
        for number in range(self.rng.choice((0, 1, 4))):
            place: Partition = (LEDGER, self.rng.randrange(self.partitions))
            value = f"{attempt.name}-{partition}:{number}".encode()
            attempt.records.append((place, value))
            producer.send(LEDGER, value, partition=place[1])
            if self.rng.random() < 0.1:
                await asyncio.sleep(self.rng.choice((0.01, 0.3, 3)) * self.rng.random())
        return await producer.prepare_transaction()

    async def _lose(self, batch: int) -> None:
        """Make an attempt at a task that no commit will name."""
        loser = self.history.begin(f"{self.runtime.name}-{batch}-{self.count}-lost")
        loser.outcome = Outcome.ABORTED
        async with self._producer(member_id(GROUP, 0, 0, 1)) as producer:
            await self._work(loser, 0, producer)

    def _producer(self, transactional_id: str) -> Producer:
        given: dict[str, Any] = settings(self.workload, self.runtime)
        given["transactional_id"] = transactional_id
        return Producer(**given)

    def _note(self, what: str) -> None:
        self.workload.coverage.note("transition", what)
