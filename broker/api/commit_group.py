"""CommitGroup: commit the open transactions of several producers by one atomic decision.

The request is answered once the decision is committed in the log. The markers are written
afterwards, as after EndTxn.
"""

from ...protocol.messages.commit_group import CommitGroupRequest, CommitGroupResponse
from ..coordinator.transaction.commit_group import Commit, GroupDecision, Named
from ..net.answer import Answer, Call
from .parked import Parked


def handle(call: Call, request: CommitGroupRequest) -> Answer:
    """Have the coordinator commit all named transactions, or none of them."""
    answer = Parked(call, rests_on_lease=True)

    def done(decision: GroupDecision) -> None:
        answer.finish(
            CommitGroupResponse(
                error_code=decision.error,
                error_message=decision.message,
                is_replay=decision.is_replay,
            )
        )

    asked = Commit(
        group=request.group,
        generation=request.generation,
        batch_id=request.batch_id,
        transactions=tuple(
            Named(each.transactional_id, each.producer_id, each.producer_epoch)
            for each in request.transactions
        ),
    )
    call.edge.transactions.groups.commit(asked, done)
    return answer
