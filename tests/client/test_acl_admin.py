"""The admin of access control entries, against scripted brokers."""

from typing import Any

import pytest

from minikafka import Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource
from minikafka.aio import Admin
from minikafka.client.errors import AdminError
from minikafka.protocol.acls import ANY
from minikafka.protocol.api import ApiKey
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages import create_acls as ca
from minikafka.protocol.messages import delete_acls as da
from minikafka.protocol.messages import describe_acls as dsc

from . import fake_broker
from .fake_broker import FakeCluster, FakeNode

READ, WRITE = AclOperation.READ, AclOperation.WRITE


def acl(name: str, operation: AclOperation = READ) -> Acl:
    who, allow = "User:a", AclPermission.ALLOW
    return Acl(AclResource.TOPIC, name, AclPattern.LITERAL, who, "*", operation, allow)


async def test_entries_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dsc.DescribeAclsRequest] = []

    def answer(node: FakeNode, request: dsc.DescribeAclsRequest) -> dsc.DescribeAclsResponse:
        asked.append(request)
        if request.operation == WRITE:
            error = ErrorCode.SECURITY_DISABLED
            return dsc.DescribeAclsResponse(error_code=error, error_message="none here")
        entry = dsc.AclDescription(principal="User:a", host="*", operation=READ, permission_type=3)
        named = dsc.DescribeAclsResource(resource_type=2, resource_name="t", acls=[entry])
        return dsc.DescribeAclsResponse(resources=[named])

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.DESCRIBE_ACLS, answer)
    wanted = AclFilter(AclResource.TOPIC, "t", AclPattern.MATCH, None, "*", ANY, ANY)
    async with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        assert await admin.describe_acls() == [acl("t")]
        assert await admin.describe_acls(wanted) == [acl("t")]
        with pytest.raises(ApiError, match="none here"):
            await admin.describe_acls(AclFilter(ANY, None, ANY, None, None, WRITE, ANY))
    every, one, _ = asked
    assert (every.resource_name_filter, every.pattern_type_filter) == (None, ANY)
    assert (one.resource_name_filter, one.pattern_type_filter) == ("t", AclPattern.MATCH)
    assert (one.principal_filter, one.host_filter) == (None, "*")


async def test_an_entry_that_is_refused_is_named_and_the_others_are_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    created: list[str] = []

    def answer(node: FakeNode, request: ca.CreateAclsRequest) -> ca.CreateAclsResponse:
        created.extend(each.resource_name for each in request.creations)
        refused = ca.AclCreationResult(error_code=ErrorCode.INVALID_REQUEST, error_message="no")
        return ca.CreateAclsResponse(
            results=[
                ca.AclCreationResult() if each.resource_name else refused
                for each in request.creations
            ]
        )

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.CREATE_ACLS, answer)
    async with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        await admin.create_acls([acl("t"), acl("t"), acl("u")])
        with pytest.raises(AdminError) as caught:
            await admin.create_acls([acl(""), acl("v")])
    assert created == ["t", "u", "", "v"]
    assert list(caught.value.errors) == [str(acl(""))]


async def test_deleted_entries_are_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(**more: Any) -> da.DeleteAclsMatchingAcl:
        values: dict[str, Any] = {"principal": "User:a", "host": "*", "permission_type": 3}
        values |= {"operation": READ, **more}
        return da.DeleteAclsMatchingAcl(resource_type=2, resource_name="t", **values)

    def answer(node: FakeNode, request: da.DeleteAclsRequest) -> da.DeleteAclsResponse:
        results = [
            da.DeleteAclsFilterResult(matching_acls=[found(), found(operation=WRITE)]),
            da.DeleteAclsFilterResult(matching_acls=[found()]),
            da.DeleteAclsFilterResult(error_code=ErrorCode.INVALID_REQUEST, error_message="no"),
        ]
        return da.DeleteAclsResponse(filter_results=results[: len(request.filters)])

    monkeypatch.setitem(fake_broker.HANDLERS, ApiKey.DELETE_ACLS, answer)
    every = AclFilter(ANY, None, ANY, None, None, ANY, ANY)
    async with FakeCluster(1) as cluster, Admin(cluster.bootstrap) as admin:
        assert await admin.delete_acls([every, every]) == [acl("t"), acl("t", WRITE)]
        with pytest.raises(ApiError, match="no"):
            await admin.delete_acls([every] * 3)
