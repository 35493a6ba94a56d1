"""InitCommitGroup: a run of a job takes over a commit group, and fences the run before it."""

from ...protocol.messages.init_commit_group import (
    InitCommitGroupRequest,
    InitCommitGroupResponse,
)
from ..coordinator.transaction.commit_group import GroupDecision, InitGroup
from ..net.answer import Answer, Call
from .parked import Parked


def handle(call: Call, request: InitCommitGroupRequest) -> Answer:
    """Answer with the run's generation and the last recorded batch, once this is committed."""
    answer = Parked(call, rests_on_lease=True)

    def done(decision: GroupDecision) -> None:
        response = InitCommitGroupResponse(
            error_code=decision.error, error_message=decision.message
        )
        if not decision.error:
            assert decision.group is not None
            response.generation = decision.group.generation
            response.batch_id = decision.group.batch_id
        answer.finish(response)

    call.edge.transactions.groups.init(InitGroup(group=request.group, run=request.run), done)
    return answer
