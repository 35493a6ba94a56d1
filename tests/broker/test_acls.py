"""DescribeAcls, CreateAcls and DeleteAcls at a broker that has an authorizer."""

from minikafka.protocol.acls import ANY, Acl, Pattern, Permission, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import decode, encode_bytes
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from minikafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.protocol.messages.describe_acls import DescribeAclsRequest

from .conftest import MakeBroker
from .permission_rows import C, G, Op, T, right
from .test_permissions import STANDARD, give

SUPER = {**STANDARD, "super_users": "User:ANONYMOUS"}


def described(name: str | None = None, pattern: int = ANY, operation: int = ANY) -> object:
    return DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=None,
        host_filter=None,
        operation=operation,
        permission_type=ANY,
    )


async def test_entries_are_described_by_resource(make_broker: MakeBroker) -> None:
    broker = make_broker(**SUPER)
    client = broker.connect()
    denied = Acl(T, "fl", Pattern.PREFIXED, "User:b", "10.0.0.1", Op.WRITE, Permission.DENY)
    give(broker, right(Op.READ, T), right(Op.READ, G), denied, right(Op.WRITE, T))
    for version in (1, 2, 3):
        found = client.ask(described(), version).resources
        assert [(each.resource_type, each.resource_name, len(each.acls)) for each in found] == [
            (Resource.TOPIC, "flights", 2),
            (Resource.GROUP, "g", 1),
            (Resource.TOPIC, "fl", 1),
        ]
        (entry,) = found[2].acls
        told = (entry.principal, entry.host, entry.operation, entry.permission_type)
        assert told == ("User:b", "10.0.0.1", Op.WRITE, Permission.DENY)
    matching = client.ask(described("flights", Pattern.MATCH, Op.WRITE), 3).resources
    assert [each.resource_name for each in matching] == ["fl", "flights"]
    refused = client.ask(described(operation=0), 3)
    assert (refused.error_code, refused.resources) == (ErrorCode.INVALID_REQUEST, [])


async def test_changes_are_forwarded_to_the_controller(make_broker: MakeBroker) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.ALTER, C))
    entry = AclCreation(
        resource_type=T,
        resource_name="t",
        principal="User:a",
        host="*",
        operation=Op.READ,
        permission_type=Permission.ALLOW,
    )
    request = CreateAclsRequest(creations=[entry])
    answer = CreateAclsResponse(results=[AclCreationResult()])
    broker.controller.answer = encode_bytes(answer, 3)
    client.send(request, 3)
    assert await client.next_responses() == [answer]
    ((api_key, version, body),) = broker.controller.requests
    assert api_key == ApiKey.CREATE_ACLS
    assert decode(CreateAclsRequest, version, body) == request
    broker.controller.answer = ApiError(ErrorCode.REQUEST_TIMED_OUT)
    every = DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    client.send(DeleteAclsRequest(filters=[every] * 2), 3)
    (response,) = await client.next_responses()
    codes = [each.error_code for each in response.filter_results]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT] * 2


async def test_acls_are_answered_as_by_a_kafka_without_an_authorizer(
    make_broker: MakeBroker,
) -> None:
    client = make_broker().connect()
    entry = AclCreation(
        resource_type=T,
        resource_name="t",
        principal="User:a",
        host="*",
        operation=Op.READ,
        permission_type=Permission.ALLOW,
    )
    every = DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    for version in (1, 2, 3):
        found = client.ask(described(), version)
        assert found.error_code == ErrorCode.SECURITY_DISABLED
        assert found.error_message.startswith("No Authorizer is configured")
        created = client.ask(CreateAclsRequest(creations=[entry] * 2), version)
        assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        deleted = client.ask(DeleteAclsRequest(filters=[every]), version)
        assert deleted.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED
