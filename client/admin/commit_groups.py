"""Commit groups: transactions of many producers, committed by one decision.

Knows the messages InitCommitGroup and CommitGroup, which are ours: other clusters lack them. What
they mean is told in broker/coordinator/transaction/commit_group.py. The transactional ids of a
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
"""Later versions of EndTxn raise the epoch, so that they mean something else when repeated."""


async def init_commit_group(asking: Asking, group: str, run: str) -> CommitGroupState:
    """Take a group over for a run of its work, which fences the runs before.

    The newest run may ask again. Raises ApiError: PRODUCER_FENCED for a run that another one has
    followed. Raises UnsupportedVersion where the cluster has no commit groups.
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

    False where this batch, or a later one, is recorded already: by somebody else, or by an earlier
    try of this call whose answer was lost. The transactions named here that are still open are
    aborted then; after True every other open transaction of the group is. The call is tried again,
    however often an answer is lost, for default_api_timeout_ms; after RequestTimedOut the outcome
    is not known, and the same call may be made again.

    Raises ApiError, and then nothing has changed: PRODUCER_FENCED for a generation that another
    run has followed; GROUP_ID_NOT_FOUND for a group that nobody has taken over, or that was
    forgotten; INVALID_TXN_STATE where a transaction is no longer open, because its time was over
    or its id was taken; MESSAGE_TOO_LARGE for too many transactions. Raises UnsupportedVersion
    where the cluster has no commit groups.
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
    """Commit or abort one prepared transaction by itself, which any cluster can.

    Repeating it is harmless. Raises ApiError where the transaction was ended otherwise, by its
    timeout for example, or its id was taken; RequestTimedOut after `timeout_ms`, by default
    default_api_timeout_ms.
    """
    name, producer_id, epoch = transaction
    request = EndTxnRequest(
        transactional_id=name, producer_id=producer_id, producer_epoch=epoch, committed=commit
    )
    answer: EndTxnResponse = await asking.coordinated(
        # Mostly asked once: it is not remembered as the coordinators of groups are.
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
