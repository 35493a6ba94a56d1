"""Scenarios S: what clients are denied, in a cluster whose brokers stop and start."""

from minikafka import Acl, AclOperation, AclPattern, AclPermission, AclResource
from minikafka.client.errors import ConnectError, ConnectionLost
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

from ..simulation.stage import Stage, staged

OPEN = {
    "authorizer.class.name": "StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def fetch(stage: Stage, broker: int) -> ErrorCode | None:
    """Fetch as a client; return the partition's error, or None if the broker did not answer."""
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic="t", partitions=[asked])]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
    try:
        answer = await stage.ask(broker, request, version=11)
    except (ConnectError, ConnectionLost):
        return None
    return ErrorCode(answer.responses[0].partitions[0].error_code)


@staged(brokers=3, broker=OPEN, controller=OPEN)
async def test_s_42_no_client_is_answered_before_the_entries_are_known(stage: Stage) -> None:
    """Given an entry that denies READ where everybody may do what no entry covers, and a broker
    that its controller tells of the metadata slowly; when the broker starts again, then the first
    client that it answers is denied, and so are the others."""
    await stage.create_topic("t", [[1, 2, 3]])
    await stage.send("t", b"secret")
    acl = Acl(
        resource_type=AclResource.TOPIC,
        resource_name="t",
        pattern_type=AclPattern.LITERAL,
        principal="User:ANONYMOUS",
        host="*",
        operation=AclOperation.READ,
        permission=AclPermission.DENY,
    )
    assert await fetch(stage, 1) == ErrorCode.NONE
    await stage.admin(lambda admin: admin.create_acls([acl]))
    await stage.stop(1)
    stage.delay("controller-1", 1, 0.3)
    stage.start(1)
    told = [await fetch(stage, 1)]
    while told.count(DENIED) < 5:
        await stage.sleep(0.01)
        told.append(await fetch(stage, 1))
    assert told.count(None) > 10, "it was asked before it could know"
    assert [code for code in told if code not in (None, DENIED)] == []
