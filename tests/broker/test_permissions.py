"""Scenario S-41: each API and version is refused, then allowed by exactly the entries it needs."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from minikafka.broker.api.guarded import guarded
from minikafka.broker.net.answer import Call
from minikafka.protocol.acls import OPERATION_BITS, Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.api import ApiKey
from minikafka.protocol.codec import request_class, response_class
from minikafka.protocol.control.image import Delta
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages import describe_transactions, list_groups, list_transactions
from minikafka.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from minikafka.protocol.messages.create_topics import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.describe_cluster import DescribeClusterRequest
from minikafka.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from minikafka.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from minikafka.security.permissions.refusing import nothing
from minikafka.security.permissions.table import TABLE

from .conftest import MakeBroker
from .edge_support import TOPIC, TOPIC_ID, FakeBroker
from .permission_rows import (
    BY_VERSION,
    FILTERED,
    INSIDE,
    OPEN,
    OPEN_BY_VERSION,
    ROWS,
    C,
    G,
    Op,
    Row,
    T,
    U,
    X,
    all_but,
    filled,
    right,
    spoken,
)

DENIED = {
    T: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    G: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    C: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    X: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    U: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
IN_PART = (ApiKey.CREATE_TOPICS, ApiKey.OFFSET_FETCH)
"""A topic may be created whose settings are not told, and a group asked for no topic: see below."""
STANDARD = {"authorizer_class_name": "StandardAuthorizer"}


def give(broker: FakeBroker, *acls: Acl) -> None:
    """Have the broker know exactly these entries."""
    broker.image.acls = {repr(acl).encode(): acl for acl in acls}
    assert broker.edge.authorizer is not None
    broker.edge.authorizer.on_metadata(Delta(is_snapshot=True), broker.image)


def errors_in(message: Any) -> Iterator[int]:
    """Yield every error code of a response, however deep."""
    for field in fields(message):
        value = getattr(message, field.name)
        if field.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for each in value:
                if is_dataclass(each):
                    yield from errors_in(each)


def errors(message: Any) -> set[int]:
    return set(errors_in(message)) - {0}


class Stub:
    """Stands in for the handler of an API, and notes the request that gets through."""

    def __init__(self, broker: FakeBroker, api_key: ApiKey, response: Any = None) -> None:
        self.seen: list[Any] = []
        self.response = response or nothing(response_class(api_key))
        table = broker.clients[-1].connection._apis
        assert isinstance(table, dict)
        table[api_key] = table[api_key]._replace(handle=guarded(self.handle, TABLE[api_key]))

    def handle(self, call: Call, request: Any) -> object:
        self.seen.append(request)
        if isinstance(request, OffsetFetchRequest) and request.groups:
            return deepcopy(self.response) if self.response.groups else self.of_groups(request)
        return deepcopy(self.response)

    def of_groups(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        groups = [OffsetFetchResponseGroup(group_id=each.group_id) for each in request.groups]
        return OffsetFetchResponse(groups=groups)


def cases() -> Iterator[Any]:
    for api_key, row in ROWS:
        yield from of_versions(api_key, spoken(api_key), row)
    for api_key, versions, row in BY_VERSION:
        yield from of_versions(api_key, versions, row)


def of_versions(api_key: ApiKey, versions: range, row: Row) -> Iterator[Any]:
    for version in versions:
        name = "-".join(f"{operation.name}-{kind.name}" for operation, kind in row.needs)
        yield pytest.param(api_key, version, row, id=f"{api_key.name}-{version}-{name}")


@pytest.mark.parametrize(("api_key", "version", "row"), list(cases()))
async def test_s_41_an_api_is_refused_then_allowed_by_exactly_what_it_needs(
    make_broker: MakeBroker, api_key: ApiKey, version: int, row: Row
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    stub = Stub(broker, api_key)
    asked = row.request(api_key, version)
    has_code = not (api_key == ApiKey.DESCRIBE_LOG_DIRS and version < 3)

    def is_refused(acls: Sequence[Acl], by: Resource) -> None:
        give(broker, *acls)
        stub.seen.clear()
        told = errors(client.ask(asked, version))
        if api_key in IN_PART and stub.seen:
            return
        assert not stub.seen
        assert (DENIED[by] in told) is has_code

    is_refused([], row.needs[0][1])
    for missing in row.needs:
        is_refused(all_but(missing, *row.stand_ins), missing[1])
    for enough in (row.needs, *row.instead):
        give(broker, *(right(*each) for each in enough))
        stub.seen.clear()
        assert not errors(client.ask(asked, version))
        assert stub.seen == [asked]


def test_every_api_is_tested_and_needs_what_its_row_says() -> None:
    tested = {api_key for api_key, _ in ROWS} | {api_key for api_key, _, _ in BY_VERSION}
    assert sorted((*tested, *FILTERED, *INSIDE, *OPEN)) == sorted(TABLE)
    for api_key in tested:
        rows = [row for key, row in ROWS if key == api_key]
        rows += [row for key, _, row in BY_VERSION if key == api_key]
        needed = {each for row in rows for each in row.needs}
        declared = {tuple(need) for guard in TABLE[api_key] for need in guard.needs}
        if api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
            declared.add((Operation.CLUSTER_ACTION, C))
        assert needed <= declared, api_key
    assert not any(TABLE[api_key] for api_key in OPEN)


def test_every_version_has_a_row() -> None:
    """The rows of `ROWS` hold for all versions of their APIs."""
    for api_key in {api_key: None for api_key, _, _ in BY_VERSION if api_key not in dict(ROWS)}:
        parts = [versions for key, versions, _ in BY_VERSION if key == api_key]
        parts.append(OPEN_BY_VERSION.get(api_key, range(0)))
        assert sorted(version for part in parts for version in part) == list(spoken(api_key))


@pytest.mark.parametrize(("group", "transactional_id"), [("x", "other"), ("other", "x")])
async def test_a_group_is_committed_only_by_who_may_write_with_all_of_its_names(
    make_broker: MakeBroker, group: str, transactional_id: str
) -> None:
    """A commit aborts what else is open in the group, so one id of it is not enough."""
    broker = make_broker(**STANDARD)
    client = broker.connect()
    stub = Stub(broker, ApiKey.COMMIT_GROUP)
    give(broker, right(Op.WRITE, X))
    named = {"group": group, "transactions": [{"transactional_id": transactional_id}]}
    asked = filled(request_class(ApiKey.COMMIT_GROUP), named)
    assert client.ask(asked, 0).error_code == DENIED[X]
    assert not stub.seen


def open_cases() -> Iterator[Any]:
    for api_key, versions in [*((each, spoken(each)) for each in OPEN), *OPEN_BY_VERSION.items()]:
        for version in versions:
            yield pytest.param(api_key, version, id=f"{api_key.name}-{version}")


@pytest.mark.parametrize(("api_key", "version"), list(open_cases()))
async def test_s_41_what_needs_nothing_gets_through_without_an_entry(
    make_broker: MakeBroker, api_key: ApiKey, version: int
) -> None:
    broker = make_broker(**STANDARD, metrics_listener="127.0.0.1:0")
    client = broker.connect()
    stub = Stub(broker, api_key)
    asked = filled(request_class(api_key), {})
    assert not errors(client.ask(asked, version))
    assert stub.seen == [asked]


async def test_an_api_that_needs_nothing_is_answered_to_everybody(make_broker: MakeBroker) -> None:
    client = make_broker(**STANDARD).connect()
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    told = client.ask(asked, 1)
    assert (told.error_code, told.cluster_authorized_operations) == (ErrorCode.NONE, 0)
    assert [broker.broker_id for broker in told.brokers] == [1, 2]


async def test_operations_on_the_cluster_and_on_groups_are_those_that_are_allowed(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.ALTER, C), right(Op.DESCRIBE, G), right(Op.READ, G))
    asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
    told = client.ask(asked, 1).cluster_authorized_operations
    assert told == 1 << Op.ALTER | 1 << Op.DESCRIBE
    groups = DescribeGroupsRequest(groups=["h", "g"], include_authorized_operations=True)
    response = client.ask(groups, 3)
    hidden = next(each for each in response.groups if each.group_id == "h")
    assert hidden.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert OPERATION_BITS[G] & 1 << Op.READ


# What is left out, and what is refused in part.


async def test_s_36_groups_that_a_client_may_not_describe_are_not_listed(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    listed = [list_groups.ListedGroup(group_id=each, protocol_type="") for each in ("g", "h")]
    for version in spoken(ApiKey.LIST_GROUPS):
        for acls, shown in (
            ((), []),
            ((right(Op.READ, G),), ["g"]),
            ((right(Op.DESCRIBE, C),), ["g", "h"]),
        ):
            give(broker, *acls)
            Stub(broker, ApiKey.LIST_GROUPS, list_groups.ListGroupsResponse(groups=list(listed)))
            told = client.ask(list_groups.ListGroupsRequest(), version)
            assert told.error_code == ErrorCode.NONE
            assert [each.group_id for each in told.groups] == shown


@pytest.mark.parametrize("version", spoken(ApiKey.DESCRIBE_GROUPS))
async def test_s_37_a_hidden_group_is_answered_without_state_and_members(
    make_broker: MakeBroker, version: int
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.DESCRIBE, G), right(Op.DESCRIBE, T))
    shown = filled(DescribedGroup, {"group_id": "g", "group_state": "Stable", "members": [{}]})
    stub = Stub(broker, ApiKey.DESCRIBE_GROUPS, DescribeGroupsResponse(groups=[shown]))
    told = client.ask(DescribeGroupsRequest(groups=["h", "g"]), version).groups
    assert [each.groups for each in stub.seen] == [["g"]]
    hidden = next(each for each in told if each.group_id == "h")
    assert hidden.error_code == DENIED[G]
    assert (hidden.group_state, hidden.protocol_data, hidden.members) == ("", "", [])
    assert len(told) == 2
    assert ApiKey.CONSUMER_GROUP_DESCRIBE not in TABLE


async def test_transactions_and_their_topics_are_shown_to_who_may_describe_them(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.WRITE, X), right(Op.READ, T))
    state = list_transactions.TransactionState
    listed = [
        state(transactional_id=each, producer_id=1, transaction_state="Empty") for each in "xy"
    ]
    response: object = list_transactions.ListTransactionsResponse(transaction_states=listed)
    Stub(broker, ApiKey.LIST_TRANSACTIONS, response)
    for version in spoken(ApiKey.LIST_TRANSACTIONS):
        told = client.ask(list_transactions.ListTransactionsRequest(), version)
        assert [each.transactional_id for each in told.transaction_states] == ["x"]
    topics = [describe_transactions.TopicData(topic=each, partitions=[0]) for each in (TOPIC, "u")]
    one = describe_transactions.TransactionState(transactional_id="x", topics=topics)
    response = describe_transactions.DescribeTransactionsResponse(transaction_states=[one])
    stub = Stub(broker, ApiKey.DESCRIBE_TRANSACTIONS, response)
    asked = describe_transactions.DescribeTransactionsRequest(transactional_ids=["y", "x"])
    seen, hidden = client.ask(asked, 0).transaction_states
    assert [each.transactional_ids for each in stub.seen] == [["x"]]
    assert [each.topic for each in seen.topics] == [TOPIC]
    assert hidden.transactional_id == "y"
    assert hidden.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


async def test_s_34_whoever_may_write_to_some_topic_gets_a_producer_id(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    stub = Stub(broker, ApiKey.INIT_PRODUCER_ID)
    asked = filled(request_class(ApiKey.INIT_PRODUCER_ID), {})
    prefix = Acl(T, TOPIC[:3], Pattern.PREFIXED, "User:*", "*", Op.WRITE, Permission.DENY)
    for acls, error in (
        ((), DENIED[C]),
        ((right(Op.WRITE, T),), ErrorCode.NONE),
        ((right(Op.WRITE, T), prefix), DENIED[C]),
        ((right(Op.IDEMPOTENT_WRITE, C), prefix), ErrorCode.NONE),
    ):
        give(broker, *acls)
        assert client.ask(asked, 4).error_code == error
    assert len(stub.seen) == 2


async def test_s_35_one_topic_denied_leaves_the_others_not_attempted(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.WRITE, X), right(Op.WRITE, T))
    stub = Stub(broker, ApiKey.ADD_PARTITIONS_TO_TXN)
    topics = [AddPartitionsToTxnTopic(name=each, partitions=[0]) for each in (TOPIC, "other")]
    asked = AddPartitionsToTxnRequest(v3_and_below_transactional_id="x", v3_and_below_topics=topics)
    told = client.ask(asked, 3).results_by_topic_v3_and_below
    assert not stub.seen
    assert {topic.name: topic.results_by_partition[0].partition_error_code for topic in told} == {
        TOPIC: ErrorCode.OPERATION_NOT_ATTEMPTED,
        "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }


@pytest.mark.parametrize("version", [1, 7, 8, 9, 10])
async def test_a_topic_whose_offsets_may_not_be_told_is_not_looked_up(
    make_broker: MakeBroker, version: int
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.DESCRIBE, G))
    stub = Stub(broker, ApiKey.OFFSET_FETCH)
    asked = next(row for key, row in ROWS if key == ApiKey.OFFSET_FETCH)
    told = client.ask(asked.request(ApiKey.OFFSET_FETCH, version), version)
    (seen,) = stub.seen
    group, of_group = (seen, told) if version < 8 else (seen.groups[0], told.groups[0])
    assert group.topics == []
    assert [each.error_code for each in of_group.topics[0].partitions] == [DENIED[T]]


@pytest.mark.parametrize("version", [7, 8, 9, 10])
async def test_all_offsets_of_a_group_are_told_without_hidden_topics(
    make_broker: MakeBroker, version: int
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.DESCRIBE, G), right(Op.DESCRIBE, T))
    hidden_id = bytes(reversed(TOPIC_ID))
    broker.image.topics[hidden_id] = broker.image.topics[TOPIC_ID].__class__("hidden", hidden_id)
    named: list[dict[str, Any]] = [{"name": TOPIC}, {"name": "hidden"}]
    if version >= 10:
        named = [{"topic_id": TOPIC_ID}, {"topic_id": hidden_id}]
    topics = [filled(OffsetFetchResponseTopics, each) for each in named]
    if version < 8:
        response = OffsetFetchResponse(topics=topics)
        asked = OffsetFetchRequest(group_id="g", topics=None)
    else:
        group = OffsetFetchResponseGroup(group_id="g", topics=topics)
        response = OffsetFetchResponse(groups=[group])
        groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in ("h", "g")]
        asked = OffsetFetchRequest(groups=groups)
    Stub(broker, ApiKey.OFFSET_FETCH, response)
    told = client.ask(asked, version)
    seen = told.topics
    if version >= 8:
        (group, denied), seen = told.groups, told.groups[0].topics
        assert (denied.group_id, denied.error_code) == ("h", DENIED[G])
    assert [(each.name, each.topic_id) for each in seen] == [(topics[0].name, topics[0].topic_id)]


async def test_s_33_a_topic_that_may_not_be_described_is_deleted_alike_whether_it_exists(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.DESCRIBE, C))
    stub = Stub(broker, ApiKey.DELETE_TOPICS)
    asked = DeleteTopicsRequest(topic_names=[TOPIC, "absent"], timeout_ms=1)
    told = client.ask(asked, 5).responses
    assert {each.name: (each.error_code, each.error_message) for each in told} == dict.fromkeys(
        (TOPIC, "absent"), (DENIED[T], "Authorization failed.")
    )
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=TOPIC_ID)], timeout_ms=1)
    (one,) = client.ask(by_id, 6).responses
    assert (one.name, one.topic_id, one.error_code) == (None, TOPIC_ID, DENIED[T])
    assert not stub.seen
    absent = Acl(T, "absent", Pattern.LITERAL, "User:*", "*", Op.DESCRIBE, Permission.ALLOW)
    give(broker, absent, right(Op.DESCRIBE, T))
    (one,) = client.ask(by_id, 6).responses
    assert (one.name, one.error_code) == (TOPIC, DENIED[T])
    client.ask(asked, 5)
    assert [each.topic_names for each in stub.seen] == [["absent"]]


async def test_settings_of_a_new_topic_are_told_to_who_may_describe_them(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    config = CreatableTopicConfigs(name="k", value="v", read_only=False, is_sensitive=False)
    asked = filled(request_class(ApiKey.CREATE_TOPICS), {"topics": [{"name": TOPIC}]})
    for acls, told in (
        ((right(Op.CREATE, T),), (DENIED[T], -1, -1, [])),
        ((right(Op.CREATE, C), right(Op.DESCRIBE_CONFIGS, T)), (0, 3, 2, [config])),
    ):
        give(broker, *acls)
        result = CreatableTopicResult(
            name=TOPIC, num_partitions=3, replication_factor=2, configs=[config]
        )
        Stub(broker, ApiKey.CREATE_TOPICS, CreateTopicsResponse(topics=[result]))
        (topic,) = client.ask(asked, 5).topics
        assert topic.error_code == ErrorCode.NONE
        assert told == (
            topic.topic_config_error_code,
            topic.num_partitions,
            topic.replication_factor,
            topic.configs,
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("minikafka.delay.target", "other"),
        ("minikafka.delay.targets", "flights, other, some-*"),
        ("minikafka.deadletter.topic", "other"),
        ("minikafka.route.rules", '[{"else": true, "to": ["flights", "other"]}]'),
    ],
)
async def test_whoever_makes_a_topic_forward_must_be_allowed_to_write_to_each_target(
    make_broker: MakeBroker, key: str, value: str
) -> None:
    """The brokers forward in nobody's name: otherwise a setting would write where no client may."""
    broker = make_broker(**STANDARD)
    client = broker.connect()
    topic = {"name": TOPIC, "configs": [{"name": key, "value": value}]}
    asked = filled(request_class(ApiKey.CREATE_TOPICS), {"topics": [topic]})
    allowed = [right(Op.CREATE, C), right(Op.WRITE, T), right(Op.DESCRIBE_CONFIGS, T)]
    give(broker, *allowed)
    stub = Stub(broker, ApiKey.CREATE_TOPICS)
    (refused,) = client.ask(asked, 5).topics
    assert (refused.name, refused.error_code) == (TOPIC, DENIED[T])
    assert stub.seen == []
    give(broker, *allowed, replace(right(Op.WRITE, T), resource_name="other"))
    client.ask(asked, 5)
    assert len(stub.seen) == 1


@pytest.mark.parametrize("api_key", [ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS])
async def test_whoever_changes_in_whose_name_is_forwarded_must_be_allowed_to_write_there(
    make_broker: MakeBroker, api_key: ApiKey
) -> None:
    """Otherwise one who has lost the right would remove what asks for it."""
    broker = make_broker(**STANDARD)
    client = broker.connect()
    authorize = {"name": "minikafka.delay.authorize", "value": "User:bob"}
    other = {"name": "retention.ms", "value": "1"}
    present = {"minikafka.delay.target": "other", "minikafka.delay.authorize": "User:alice"}
    broker.image.configs[(2, TOPIC)] = present
    stub = Stub(broker, api_key)

    def ask(config: dict[str, str]) -> list[int]:
        resource = {"resource_type": 2, "resource_name": TOPIC, "configs": [config]}
        told = client.ask(filled(request_class(api_key), {"resources": [resource]}), 1)
        return [each.error_code for each in told.responses]

    give(broker, right(Op.ALTER_CONFIGS, T))
    assert ask(authorize) == [DENIED[T]]
    # AlterConfigs removes what it does not name.
    assert ask(other) == ([DENIED[T]] if api_key == ApiKey.ALTER_CONFIGS else [])
    seen = len(stub.seen)
    give(broker, right(Op.ALTER_CONFIGS, T), replace(right(Op.WRITE, T), resource_name="other"))
    assert (ask(authorize), ask(other)) == ([], [])
    assert len(stub.seen) == seen + 2


async def test_rules_that_cannot_be_read_are_left_to_the_controller(
    make_broker: MakeBroker,
) -> None:
    broker = make_broker(**STANDARD)
    client = broker.connect()
    give(broker, right(Op.CREATE, C), right(Op.DESCRIBE_CONFIGS, T))
    topic = {"name": TOPIC, "configs": [{"name": "minikafka.route.rules", "value": "[}"}]}
    stub = Stub(broker, ApiKey.CREATE_TOPICS)
    client.ask(filled(request_class(ApiKey.CREATE_TOPICS), {"topics": [topic]}), 5)
    assert len(stub.seen) == 1
