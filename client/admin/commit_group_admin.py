"""The part of the admin that commits transactions of many producers by one decision.

Knows the messages InitCommitGroup and CommitGroup, which are ours: other clusters lack them. What
they mean is told in broker/coordinator/transaction/commit_group.py.
"""

from collections.abc import Iterable
from typing import Any, Final

from ...protocol.errors import ErrorCode
from ...protocol.messages.commit_group import (
    CommitGroupRequest,
    CommitGroupResponse,
    GroupTransaction,
)
from ...protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ...protocol.messages.find_coordinator import CoordinatorType
from ...protocol.messages.init_commit_group import InitCommitGroupRequest, InitCommitGroupResponse
from ..coordinator import Coordinator
from ..group_types import CommitGroupState, PreparedTransaction
from .group_admin import raise_for
from .transaction_admin import TransactionAdmin, patient_code

END_WITHOUT_BUMP: Final = 4
"""Later versions of EndTxn raise the epoch, so that they mean something else when repeated."""


class CommitGroupAdmin(TransactionAdmin):
    """Commit groups: `{group}/{partition}/{generation}.{attempt}` are the ids of one."""

    async def init_commit_group(self, group: str, run: str) -> CommitGroupState:
        """Take a group over for a run of its work, which fences the runs before.

        The newest run may ask again. Raises ApiError: PRODUCER_FENCED for a run that another one
        has followed. UnsupportedVersion where the cluster has no commit groups.
        """
        request = InitCommitGroupRequest(group=group, run=run)
        answer: InitCommitGroupResponse = await self._ask_group(group, request)
        return CommitGroupState(answer.generation, answer.batch_id)

    async def commit_group(
        self,
        group: str,
        generation: int,
        batch_id: int,
        transactions: Iterable[PreparedTransaction],
    ) -> bool:
        """Commit prepared transactions and record their batch, all or nothing.

        False: this batch, or a later one, is recorded already: by somebody else, or by an earlier
        try of this call, whose answer was lost. What is named and still open is aborted then, and
        otherwise every other open transaction of the group. Tried again, however often an answer
        is lost, for default_api_timeout_ms; after RequestTimedOut the outcome is not known, and
        the same call may be made again.

        Raises ApiError, and then nothing has changed: PRODUCER_FENCED for a generation that
        another run has followed; GROUP_ID_NOT_FOUND for a group that nobody has taken over, or
        that was forgotten; INVALID_TXN_STATE where a transaction is no longer open, because
        its time was over or its id was taken; MESSAGE_TOO_LARGE for too many transactions.
        UnsupportedVersion where the cluster has no commit groups.
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
        answer: CommitGroupResponse = await self._ask_group(group, request)
        return not answer.is_replay

    async def end_prepared(
        self, transaction: PreparedTransaction, *, commit: bool, timeout_ms: int | None = None
    ) -> None:
        """Commit or abort one prepared transaction by itself, which any cluster can.

        Repeating it is harmless. ApiError where it was ended otherwise, by its timeout say, or its
        id was taken. RequestTimedOut after `timeout_ms`, by default default_api_timeout_ms.
        """
        self._check_open()
        name, producer_id, epoch = transaction
        # Asked for once, mostly: not kept as those of groups are.
        coordinator = Coordinator(
            self._runtime, self.config, self._metadata, name, CoordinatorType.TRANSACTION
        )
        answer: EndTxnResponse = await coordinator.ask(
            EndTxnRequest(
                transactional_id=name,
                producer_id=producer_id,
                producer_epoch=epoch,
                committed=commit,
            ),
            lambda answer: ErrorCode(patient_code(answer)),
            timeout_ms=self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms,
            at_most=END_WITHOUT_BUMP,
        )
        raise_for(answer.error_code, name)

    async def _ask_group(self, group: str, request: object) -> Any:
        coordinator = self._coordinator(CoordinatorType.TRANSACTION, group)
        answer = await self._coordinated(coordinator, request, patient_code)
        raise_for(answer.error_code, answer.error_message or f"commit group {group}")
        return answer
