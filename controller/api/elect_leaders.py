"""ElectLeaders: an unclean election takes two steps; the answer is sent after the second."""

from typing import TYPE_CHECKING, Final

from ...protocol.errors import ErrorCode
from ...protocol.messages.elect_leaders import (
    ElectionType,
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
)
from ..metadata.longest_logs import REPORTS_WITHIN_MS

if TYPE_CHECKING:
    from ..driver import Controller

WAIT_MS: Final = 2 * REPORTS_WITHIN_MS


async def wait_until_elected(
    controller: "Controller", request: ElectLeadersRequest, response: ElectLeadersResponse
) -> None:
    """Wait until the unclean elections are over; set REQUEST_TIMED_OUT on those that are not."""
    if request.election_type != ElectionType.UNCLEAN:
        return
    until_ms = controller.runtime.monotonic_ms() + min(max(0, request.timeout_ms), WAIT_MS)
    while asked := _still_asked(controller, response):
        left_ms = until_ms - controller.runtime.monotonic_ms()
        if left_ms <= 0 or not controller.is_active:
            for result in asked:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = "no replica has told yet how much it has: it goes on"
            return
        await controller.wait_for_metadata(controller.committed.offset + 1, left_ms)


def _still_asked(controller: "Controller", response: ElectLeadersResponse) -> list[PartitionResult]:
    image = controller.committed
    return [
        result
        for named in response.replica_election_results
        if (topic := image.topic(named.topic)) is not None
        for result in named.partition_result
        if not result.error_code
        and (state := topic.partitions.get(result.partition_id)) is not None
        and state.electing
    ]
