"""Produce: batches are appended by the leader, and the request is answered as acks requires.

The handler checks the batches and stages them. At the end of the read event the connection writes
all staged batches, then polls the answers. Transactional batches are verified first
(produce_transactional.py).
"""

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.produce import ACKS_ALL, ProduceRequest
from ...protocol.records.batch_header import is_transactional
from ..net.answer import Answer, Call
from ..partition.requests import Appended
from . import produce_transactional
from .produce_answer import ProduceAnswer


def handle(call: Call, request: ProduceRequest) -> Answer:
    """Stage the batches of each partition, and return the answer that waits for their appends."""
    if request.acks not in (0, 1, ACKS_ALL):
        return _refused(call, request, ErrorCode.INVALID_REQUIRED_ACKS)
    if call.rights is not None and not _may_write_transactions(call, request):
        return _refused(call, request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.transactional_id is not None:
        return produce_transactional.handle(call, request, request.transactional_id)
    answer = ProduceAnswer(call, request)
    for topic in request.topic_data:
        for data in topic.partition_data:
            answer.append(topic, data)
    return answer


def _may_write_transactions(call: Call, request: ProduceRequest) -> bool:
    """True unless the request writes into a transaction that is not the client's.

    A transactional batch in a request without a transactional id belongs to no known client: by its
    producer id, it could get into an open transaction of another client (CVE-2018-17196).
    """
    name = request.transactional_id
    if name is not None:
        return call.demand(ApiKey.PRODUCE, Operation.WRITE, Resource.TRANSACTIONAL_ID, name)
    return not any(
        data.records is not None and is_transactional(data.records)
        for topic in request.topic_data
        for data in topic.partition_data
    )


def _refused(call: Call, request: ProduceRequest, error: ErrorCode) -> Answer:
    """Answer every partition of the request with the same error."""
    answer = ProduceAnswer(call, request)
    for topic in request.topic_data:
        for data in topic.partition_data:
            answer.results.append((topic, data, None, Appended(error=error)))
    return answer
