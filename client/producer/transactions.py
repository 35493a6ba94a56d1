"""Carries out a producer's transactions: sends the requests and waits for the batches.

`Transaction` decides what an answer means. Each request waits at most max_block_ms for its
coordinator; a call that raised RequestTimedOut can be repeated and then continues.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from ...protocol.messages.end_txn import EndTxnResponse
from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.messages.init_producer_id import InitProducerIdResponse
from ...protocol.schema import shape_of
from ...protocol.types import TopicPartition
from ...runtime.runtime import Runtime
from ..config import ProducerConfig
from ..coordinator import Coordinator
from ..errors import (
    ClientClosed,
    ClientError,
    RequestTimedOut,
    TransactionAborted,
    TransactionFailed,
    UnsupportedVersion,
)
from ..group_types import ConsumerGroupMetadata, PreparedTransaction
from ..metadata import Metadata
from ..net.backoff import Backoff
from ..net.connection import KafkaConnection
from ..refusals import Refused
from .accumulator import Accumulator
from .batch import UNNUMBERED, ProducerIdentity
from .delivery import until_settled
from .transaction import Phase, Reaction, Step, Transaction
from .transaction_requests import (
    Offsets,
    add_offsets,
    add_partitions,
    codes_of,
    commit_offsets,
    end,
    first_error,
    init,
)

log = logging.getLogger(__name__)

CONCURRENT_RETRY_MS: Final = 20
"""The first pause in ms while a coordinator still writes the markers of the last transaction."""
OLDER_ADD_PARTITIONS: Final = 3
"""The newest version of AddPartitionsToTxn for clients; later ones are for brokers."""
OLDER_OFFSETS: Final = 4
MEMBERS_VERSION: Final = 3
OLDER_END: Final = 4
IMPLICIT_END: Final = 5
RENEWAL_VERSION: Final = 3
"""From this version on InitProducerId can raise the epoch of a producer in use (KIP-360)."""
Judge = Callable[[Any], tuple[ErrorCode, Reaction]]


class Transactions:
    """The transactions of one producer, one after the other."""

    def __init__(
        self,
        runtime: Runtime,
        config: ProducerConfig,
        metadata: Metadata,
        accumulator: Accumulator,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called after the transaction's state has changed."""
        assert config.transactional_id is not None
        self.state = Transaction()
        self._id = config.transactional_id
        self._runtime = runtime
        self._config = config
        self._metadata = metadata
        self._accumulator = accumulator
        self._on_change = on_change
        self._coordinator = Coordinator(
            runtime, config, metadata, self._id, CoordinatorType.TRANSACTION
        )
        self._groups: dict[str, Coordinator] = {}
        self._concurrent = Backoff(CONCURRENT_RETRY_MS, config.retry_backoff_max_ms)
        self._adding: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        accumulator.admit = self._admit
        accumulator.on_lost = self._on_lost

    # -- life

    async def start(self) -> None:
        """Initialize the transactional id: fence older producers and abort their transaction."""
        await self._renew()
        self._changed()

    async def close(self) -> None:
        """Stop; the coordinator aborts an open transaction after transaction_timeout_ms."""
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait([self._adding])

    async def begin(self) -> None:
        """Begin a transaction, after raising the epoch if the last transaction requires that."""
        async with self._turn:
            state = self.state
            if state.phase is Phase.READY:
                await self._look_at_protocol()
                if state.must_renew:
                    await self._renew()
            state.begin()
            self._changed()

    async def commit(self) -> None:
        """Wait for all batches, then commit."""
        async with self._turn:
            await self._settle()
            await self._end(commit=True)

    async def prepare(self) -> PreparedTransaction | None:
        """Wait for all batches and leave the transaction open; None if the transaction is empty."""
        async with self._turn:
            await self._settle()
            if not self.state.must_tell_coordinator:
                await self._end(commit=True)
                return None
            used = self.state.hand_over()
            self._changed()
            return PreparedTransaction(self._id, used.producer_id, used.epoch)

    async def _settle(self) -> None:
        """Wait for all batches before a commit; raise if the transaction has failed."""
        state = self.state
        state.begin_end(commit=True)
        self._changed()
        self._accumulator.flush_count += 1
        try:
            await until_settled(self._accumulator)
        finally:
            self._accumulator.flush_count -= 1
        if state.error is not None:
            raise state.error

    async def abort(self) -> None:
        """Fail the batches that are not in flight, wait for those in flight, then abort."""
        async with self._turn:
            self.state.begin_end(commit=False)
            self._changed()
            await until_settled(self._accumulator)
            if self._adding is not None:
                await asyncio.wait([self._adding])
            await self._end(commit=False)

    async def _end(self, *, commit: bool) -> None:
        state = self.state
        if state.must_tell_coordinator:
            assert state.identity is not None
            request = end(self._id, state.identity, commit=commit)

            def judge(answer: EndTxnResponse) -> tuple[ErrorCode, Reaction]:
                code = ErrorCode(answer.error_code)
                given = ProducerIdentity(answer.producer_id, answer.producer_epoch)
                return code, state.on_end_answered(code, given)

            at_most = IMPLICIT_END if state.is_implicit else OLDER_END
            await self._ask(self._coordinator, request, judge, at_most=at_most)
        if state.must_renew:
            await self._renew()
        state.on_ended()
        self._changed()

    # -- producer id and epoch

    async def _renew(self) -> None:
        """Get a producer id, or a higher epoch of the current one, by InitProducerId."""
        state = self.state
        used = state.identity or UNNUMBERED
        request = init(self._id, used, self._config.transaction_timeout_ms)
        judge = self._judge(Step.INIT, "InitProducerId", lambda a: a.error_code)
        # In older versions a broker cannot check whether another producer took our place.
        at_least = 0 if state.identity is None else RENEWAL_VERSION
        answer: InitProducerIdResponse = await self._ask(
            self._coordinator, request, judge, at_least=at_least
        )
        connection = await self._coordinator.connection()
        given = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        state.on_identity(given, is_implicit=_is_implicit(connection))

    async def _look_at_protocol(self) -> None:
        try:
            connection = await self._coordinator.connection()
        except (ClientError, ProtocolError) as error:
            log.debug("%s: whether transactions changed is not known: %s", self._id, error)
        else:
            self.state.on_protocol(is_implicit=_is_implicit(connection))

    # -- partitions

    def _admit(self, partition: TopicPartition) -> bool:
        may_go = self.state.admit(partition)
        if not may_go and (self._adding is None or self._adding.done()) and self.state.to_add():
            self._adding = self._runtime.spawn(self._add_partitions(), "add partitions")
        return may_go

    async def _add_partitions(self) -> None:
        failure_count = 0
        while partitions := self.state.to_add():
            try:
                reaction = await self._add_once(partitions)
            except (Refused, UnsupportedVersion) as error:
                self.state.fail_for_good(TransactionFailed(error))
                reaction = Reaction.FAIL
            except (ClientError, ProtocolError) as error:
                log.debug("%s: AddPartitionsToTxn: %s", self._id, error)
                reaction = Reaction.AGAIN
            self._changed()
            failure_count = failure_count + 1 if reaction is Reaction.AGAIN else 0
            if failure_count:
                wait_ms = self._concurrent.after(failure_count, self._runtime.rng)
                await asyncio.sleep(wait_ms / 1000)

    async def _add_once(self, partitions: list[TopicPartition]) -> Reaction:
        identity = self.state.identity
        assert identity is not None
        request = add_partitions(self._id, identity, partitions)
        self.state.on_asked(Step.ADD_PARTITIONS)
        answer: AddPartitionsToTxnResponse = await self._coordinator.request(
            request, at_most=OLDER_ADD_PARTITIONS
        )
        codes = codes_of(answer)
        for code in codes.values():
            self._coordinator.on_refused(code)
        return self.state.on_partitions_answered(codes)

    # -- offsets

    async def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata) -> None:
        """Send a group's offsets, to be committed with the transaction."""
        async with self._turn:
            self.state.check_may_end()
            if not offsets:
                return
            identity = self.state.identity
            assert identity is not None
            is_sent = False
            try:
                if not self.state.is_implicit:
                    request = add_offsets(self._id, identity, group)
                    judge = self._judge(Step.ADD_OFFSETS, group.group_id, lambda a: a.error_code)
                    await self._ask(self._coordinator, request, judge, step=Step.ADD_OFFSETS)
                await self._commit_offsets(offsets, group, identity)
                is_sent = True
            finally:
                if not is_sent:
                    # Timed out or cancelled: a commit without the offsets would duplicate work.
                    self.state.fail(ClientError("its offsets were not sent"))
                    self._changed()

    async def _commit_offsets(
        self, offsets: Offsets, group: ConsumerGroupMetadata, identity: ProducerIdentity
    ) -> None:
        request = commit_offsets(self._id, identity, group, offsets)
        coordinator = self._groups.get(group.group_id)
        if coordinator is None:
            coordinator = self._groups[group.group_id] = Coordinator(
                self._runtime, self._config, self._metadata, group.group_id
            )
        at_most = None if self.state.is_implicit else OLDER_OFFSETS
        judge = self._judge(Step.COMMIT_OFFSETS, f"group {group.group_id}", first_error)
        # In older versions a broker cannot check whether the member is still valid (KIP-447).
        at_least = MEMBERS_VERSION if group.generation_id >= 0 else 0
        step = Step.COMMIT_OFFSETS
        await self._ask(coordinator, request, judge, at_most=at_most, at_least=at_least, step=step)

    # -- asking

    def _judge(self, step: Step, detail: str, code_of: Callable[[Any], int]) -> Judge:
        def judge(answer: Any) -> tuple[ErrorCode, Reaction]:
            code = ErrorCode(code_of(answer))
            return code, self.state.on_answer(step, code, detail)

        return judge

    async def _ask(
        self,
        coordinator: Coordinator,
        request: object,
        judge: Judge,
        *,
        at_most: int | None = None,
        at_least: int = 0,
        step: Step | None = None,
    ) -> Any:
        """Repeat a request until its answer is final, and return that answer.

        Raise the state's error if the transaction has failed, RequestTimedOut after max_block_ms.
        """
        why, failure_count = "no answer", 0
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                while True:
                    if step is not None:
                        self.state.on_asked(step)
                    code = ErrorCode.NONE
                    try:
                        if at_least:
                            _check_version(await coordinator.connection(), request, at_least)
                        answer = await coordinator.request(request, at_most=at_most)
                    except (ClientClosed, Refused, UnsupportedVersion):
                        raise
                    except (ClientError, ProtocolError) as error:
                        why = str(error)
                    else:
                        code, reaction = judge(answer)
                        if reaction is not Reaction.AGAIN:
                            break
                        why = f"{code.name}: {code.doc}"
                        coordinator.on_refused(code)
                    failure_count += 1
                    await self._rest(coordinator, code, failure_count)
        except (Refused, UnsupportedVersion) as error:
            self.state.fail_for_good(TransactionFailed(error))
        except TimeoutError:
            waited = self._config.max_block_ms
            raise RequestTimedOut(f"{coordinator}: not done in {waited} ms: {why}") from None
        if self.state.error is not None:
            self._changed()
            raise self.state.error
        return answer

    async def _rest(self, coordinator: Coordinator, code: ErrorCode, failure_count: int) -> None:
        if code is ErrorCode.CONCURRENT_TRANSACTIONS:
            wait_ms = self._concurrent.after(failure_count, self._runtime.rng)
            await asyncio.sleep(wait_ms / 1000)
        else:
            await coordinator.rest(failure_count)

    # -- what the accumulator and the producer see of it

    def _on_lost(self, error: ClientError, was_sent: bool) -> None:
        before = self.state.phase
        self.state.on_batch_lost(error, was_sent=was_sent)
        if self.state.phase is not before:
            self._changed()

    def _changed(self) -> None:
        state, accumulator = self.state, self._accumulator
        if state.phase is Phase.FAILED:
            accumulator.giving_up = state.error
        elif state.phase in (Phase.DOOMED, Phase.ABORTING):
            why = f": {state.error}" if state.error is not None else ""
            accumulator.giving_up = TransactionAborted(f"not sent{why}")
        else:
            accumulator.giving_up = None
        accumulator.is_implicit = state.is_implicit
        if state.identity is not None and accumulator.identity != state.identity:
            accumulator.change_identity(state.identity)
        self._on_change()


def _check_version(connection: KafkaConnection, request: object, at_least: int) -> None:
    key = ApiKey(shape_of(type(request)).api_key)
    version = connection.versions.of(key)
    if version < at_least:
        why = f"{connection.address}: {key.name}: version {at_least} is needed, it has {version}"
        raise UnsupportedVersion(why)


def _is_implicit(connection: KafkaConnection) -> bool:
    """True if the cluster has finalised transaction.version 2 and the broker has EndTxn 5."""
    is_final = connection.versions.features.get("transaction.version", 0) >= 2
    return is_final and connection.versions.of(ApiKey.END_TXN) >= IMPLICIT_END
