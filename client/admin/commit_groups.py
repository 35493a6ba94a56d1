"""Commit groups: transactions of many producers that are committed together.

The messages InitCommitGroup and CommitGroup exist only in minikafka;
broker/coordinator/transaction/commit_group.py describes what they mean. The transactional ids of a
group are `{group}/{partition}/{generation}.{attempt}`.
"""

from collections.abc import Iterable
from typing import Any, Final

from ...protocol.messages.commit_group import (
    CommitGroupRequest,
    CommitGroupResponse,
    GroupTransaction,
)
from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.messages.init_commit_group import InitCommitGroupRequest, InitCommitGroupResponse
from ..group_types import CommitGroupState, PreparedTransaction
from ..outcomes import raise_for
from .asking import Asking
from .transactions import patient_code

END_WITHOUT_BUMP: Final = 4
"""The newest version of EndTxn that does not raise the epoch, so that it can be repeated."""


async def init_commit_group(asking: Asking, group: str, run: str) -> CommitGroupState:
    """Begin a run of a group, which fences all earlier runs; return the group's state.

    Call it again with the same `run` as long as no other run has begun. Raises ApiError
    PRODUCER_FENCED if another run has begun since, UnsupportedVersion if the cluster has no commit
    groups.
    """
    request = InitCommitGroupRequest(group=group, run=run)
    answer: InitCommitGroupResponse = await _ask_group(asking, group, request)
    return CommitGroupState(answer.generation, answer.batch_id)


async def commit_group(
    asking: Asking,
    group: str,
    generation: int,
    batch_id: int,
    transactions: Iterable[PreparedTransaction],
) -> bool:
    """Commit prepared transactions and record their batch, all or nothing.

    Return False if this batch or a later one is recorded already, by another process or by an
    earlier attempt whose answer was lost. In that case those of `transactions` that are still open
    are aborted. After True, every other open transaction of the group is aborted. The request is
    repeated for default_api_timeout_ms; after RequestTimedOut the outcome is unknown, and the same
    call may be made again.

    Raises ApiError, and then changes nothing: PRODUCER_FENCED if a later run has begun a new
    generation; GROUP_ID_NOT_FOUND for a group that was never begun, or has expired;
    INVALID_TXN_STATE if a transaction is no longer open, because it timed out or another producer
    uses its id; MESSAGE_TOO_LARGE for too many transactions. Raises UnsupportedVersion if the
    cluster has no commit groups.
    """
    request = CommitGroupRequest(
        group=group,
        generation=generation,
        batch_id=batch_id,
        transactions=[
            GroupTransaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
            )
            for each in transactions
        ],
    )
    answer: CommitGroupResponse = await _ask_group(asking, group, request)
    return not answer.is_replay


async def end_prepared(
    asking: Asking,
    transaction: PreparedTransaction,
    *,
    commit: bool,
    timeout_ms: int | None = None,
) -> None:
    """Commit or abort one prepared transaction alone; this works with any Kafka cluster.

    The call may be repeated. Raises ApiError if the transaction was ended in another way, for
    example by its timeout, or if another producer uses its id. Raise RequestTimedOut after
    `timeout_ms` (default default_api_timeout_ms).
    """
    name, producer_id, epoch = transaction
    request = EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    answer: EndTxnResponse = await asking.coordinated(
        # This coordinator is usually used once, so it is not kept.
        asking.coordinators.once(CoordinatorType.TRANSACTION, name),
        request,
        patient_code,
        at_most=END_WITHOUT_BUMP,
        timeout_ms=timeout_ms,
    )
    raise_for(answer.error_code, name)


async def _ask_group(asking: Asking, group: str, request: object) -> Any:
    coordinator = asking.coordinators.of(CoordinatorType.TRANSACTION, group)
    answer = await asking.coordinated(coordinator, request, patient_code)
    raise_for(answer.error_code, answer.error_message or f"commit group {group}")
    return answer
