"""What tools are told of ACLs and quotas where there are none."""

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import (
    alter_client_quotas as acq,
)
from minikafka.protocol.messages import (
    create_acls,
    delete_acls,
    describe_acls,
)
from minikafka.protocol.messages import (
    describe_client_quotas as dcq,
)

from .conftest import MakeBroker

ANY = 1
ALLOW = 3


async def test_acls_are_answered_as_by_a_kafka_without_an_authorizer(
    make_broker: MakeBroker,
) -> None:
    client = make_broker().connect()
    entry = create_acls.AclCreation(
        resource_type=2,
        resource_name="t",
        principal="User:a",
        host="*",
        operation=3,
        permission_type=ALLOW,
    )
    every = delete_acls.DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    asked = describe_acls.DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    for version in (1, 2, 3):
        described = client.ask(asked, version)
        assert described.error_code == ErrorCode.SECURITY_DISABLED
        assert described.error_message.startswith("No Authorizer is configured")
        created = client.ask(create_acls.CreateAclsRequest(creations=[entry] * 2), version)
        assert [each.error_code for each in created.results] == [ErrorCode.SECURITY_DISABLED] * 2
        deleted = client.ask(delete_acls.DeleteAclsRequest(filters=[every]), version)
        assert deleted.filter_results[0].error_code == ErrorCode.SECURITY_DISABLED


async def test_no_entity_has_a_quota_and_none_can_be_given_one(make_broker: MakeBroker) -> None:
    client = make_broker().connect()
    of_users = dcq.ComponentData(entity_type="user", match_type=2, match=None)
    for version in (0, 1):
        asked = dcq.DescribeClientQuotasRequest(components=[of_users], strict=False)
        described = client.ask(asked, version)
        assert (described.error_code, described.entries) == (ErrorCode.NONE, [])
        entity = [dcq.EntityData(entity_type="user", entity_name="a")]
        change = acq.OpData(key="producer_byte_rate", value=1.0, remove=False)
        entries = [acq.EntryData(entity=entity, ops=[change])]
        altered = client.ask(
            acq.AlterClientQuotasRequest(entries=entries, validate_only=False), version
        )
        (result,) = altered.entries
        assert result.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert "quotas are not enforced" in result.error_message
        assert result.entity == entity
