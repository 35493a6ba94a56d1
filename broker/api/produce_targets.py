"""Judges the topics that records of a delay topic name as their targets, before they are appended.

A record that names its target is forwarded in nobody's name. So the producer needs the right to
write to that topic itself, and it must be there.
"""

from ...protocol.acls import Operation, Resource
from ...protocol.api import ApiKey
from ...protocol.control.records import TOPIC
from ...protocol.errors import ErrorCode
from ...protocol.forwarding_keys import TARGET
from ...protocol.header_targets import BY_HEADER
from ...protocol.records.record_checks import RecordError, Verdict
from ...protocol.records.record_python import MOST_NAMED
from ..net.answer import Call


def judge_targets(call: Call, source: str, verdict: Verdict) -> Verdict:
    """Return the verdict without its targets, or a refusal that names the first record of each."""
    code = ErrorCode.NONE
    named: list[RecordError] = []
    for target, index in verdict.targets:
        error, why = _judge(call, source, target)
        if error:
            code = code or error
            named.append(RecordError(index, f"{target}: {why}"))
    if not code:
        return verdict._replace(targets=())
    named.sort()
    detail = f"record {named[0].batch_index} of the batch: target {named[0].message}"
    return Verdict(-1, verdict.byte_count, code, detail, tuple(named[:MOST_NAMED]))


def _judge(call: Call, source: str, target: str) -> tuple[ErrorCode, str]:
    write, topic = Operation.WRITE, Resource.TOPIC
    if call.rights is not None and not call.demand(ApiKey.PRODUCE, write, topic, target):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the producer may not write to it"
    image = call.edge.image
    if target not in image.topic_ids:
        return ErrorCode.INVALID_RECORD, "there is no such topic"
    config = image.configs.get((TOPIC, target), {})
    if target == source or config.get(TARGET) == BY_HEADER:
        return ErrorCode.INVALID_RECORD, f"it has {TARGET}={BY_HEADER}, and gets nothing"
    return ErrorCode.NONE, ""
