"""Access control entries at the controller: created once, deleted by filters, kept in snapshots."""

from typing import Any

import pytest

from minikafka.controller.metadata.acls import create_acls, delete_acls
from minikafka.controller.metadata.decision import DECISION_RECORDS_MAX
from minikafka.protocol.acls import (
    ANY,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.records import decode_record, encode_record
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
)
from minikafka.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsRequest,
)

from .machine import Machine

LITERAL, PREFIXED, MATCH = Pattern.LITERAL, Pattern.PREFIXED, Pattern.MATCH


def creation(name: str = "t", **changed: Any) -> AclCreation:
    values: dict[str, Any] = {
        "resource_type": Resource.TOPIC,
        "resource_name": name,
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**(values | changed))


def wanted(name: str | None = None, pattern: int = ANY, **changed: Any) -> DeleteAclsFilter:
    values: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": name,
        "pattern_type_filter": pattern,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return DeleteAclsFilter(**(values | changed))


def create(machine: Machine, *creations: AclCreation) -> list[AclCreationResult]:
    request = CreateAclsRequest(creations=list(creations))
    decision = create_acls(machine.cluster, request, lambda text: text.encode())
    return machine.carry_out(decision).results


def delete(machine: Machine, *filters: DeleteAclsFilter) -> list[DeleteAclsFilterResult]:
    decision = delete_acls(machine.cluster, DeleteAclsRequest(filters=list(filters)))
    return machine.carry_out(decision).filter_results


def names(machine: Machine) -> list[tuple[str, int]]:
    return [(acl.resource_name, acl.pattern_type) for acl in machine.image.acls.values()]


def test_an_entry_that_exists_is_created_silently_once_more() -> None:
    machine = Machine(brokers_up=1)
    assert create(machine, creation(), creation("u")) == [AclCreationResult()] * 2
    length = len(machine.log)
    assert create(machine, creation(), creation("v"), creation("v")) == [AclCreationResult()] * 3
    assert len(machine.log) == length + 1
    assert [name for name, _ in names(machine)] == ["t", "u", "v"]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"resource_type": 0}, "there is no resource type 0"),
        ({"resource_type": ANY}, "there is no resource type 1"),
        ({"resource_pattern_type": MATCH}, "LITERAL or PREFIXED"),
        ({"resource_pattern_type": 9}, "there is no pattern type 9"),
        ({"operation": ANY}, "there is no operation 1"),
        ({"permission_type": 0}, "there is no permission type 0"),
        ({"resource_name": ""}, "the resource has no name"),
        ({"resource_type": Resource.CLUSTER}, "only valid name of the CLUSTER resource"),
        ({"principal": "alice"}, "the principal has no colon"),
    ],
)
def test_an_entry_that_means_nothing_is_refused_and_the_others_are_created(
    bad: dict[str, Any], words: str
) -> None:
    machine = Machine(brokers_up=1)
    refused, good = create(machine, creation(**bad), creation("u"))
    assert (refused.error_code, good.error_code) == (ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    assert words in (refused.error_message or "")
    assert names(machine) == [("u", LITERAL)]


def test_an_entry_of_the_cluster_has_the_clusters_name() -> None:
    machine = Machine(brokers_up=1)
    (result,) = create(machine, creation(CLUSTER_NAME, resource_type=Resource.CLUSTER))
    assert result.error_code == ErrorCode.NONE


def everything() -> Machine:
    """A cluster with entries for t, `*` and u by their names, and for t and x by prefix."""
    machine = Machine(brokers_up=1)
    create(machine, *(creation(name) for name in ("t", "*", "u")))
    create(machine, *(creation(name, resource_pattern_type=PREFIXED) for name in ("t", "x")))
    return machine


@pytest.mark.parametrize(
    ("name", "pattern", "found"),
    [
        ("t1", MATCH, [("*", LITERAL), ("t", PREFIXED)]),
        ("t", MATCH, [("t", LITERAL), ("*", LITERAL), ("t", PREFIXED)]),
        ("t", ANY, [("t", LITERAL), ("t", PREFIXED)]),
        ("t", LITERAL, [("t", LITERAL)]),
        ("t", PREFIXED, [("t", PREFIXED)]),
        ("*", LITERAL, [("*", LITERAL)]),
        ("t1", ANY, []),
        (None, PREFIXED, [("t", PREFIXED), ("x", PREFIXED)]),
    ],
)
def test_s_39_a_filter_means_what_its_pattern_type_says(
    name: str | None, pattern: int, found: list[tuple[str, int]]
) -> None:
    machine = everything()
    (result,) = delete(machine, wanted(name, pattern))
    told = [(each.resource_name, each.pattern_type) for each in result.matching_acls]
    assert told == found
    assert not set(found) & set(names(machine))
    assert len(names(machine)) == 5 - len(found)


@pytest.mark.parametrize(
    "narrow",
    [
        {"resource_type_filter": Resource.GROUP},
        {"principal_filter": "User:bob"},
        {"host_filter": "10.0.0.1"},
        {"operation": Operation.WRITE},
        {"permission_type": Permission.DENY},
    ],
)
def test_a_filter_must_agree_in_every_field(narrow: dict[str, Any]) -> None:
    machine = everything()
    (result,) = delete(machine, wanted(**narrow))
    assert result.matching_acls == []
    assert len(names(machine)) == 5


def test_an_entry_that_two_filters_mean_is_deleted_once_and_told_twice() -> None:
    machine = everything()
    bad, first, second = delete(machine, wanted(operation=0), wanted("t"), wanted("t", LITERAL))
    assert bad.error_code == ErrorCode.INVALID_REQUEST
    assert (len(first.matching_acls), len(second.matching_acls)) == (2, 1)
    assert len(names(machine)) == 3


def test_s_40_more_entries_than_fit_into_a_decision_are_refused_and_none_is_deleted() -> None:
    machine = Machine(brokers_up=1)
    for number in range(DECISION_RECORDS_MAX + 1):
        acl = Acl(Resource.TOPIC, f"t{number}", LITERAL, "User:a", "*", Operation.READ, 3)
        machine.image.acls[str(number).encode()] = acl
    with pytest.raises(ApiError, match="delete at most 10000") as caught:
        delete(machine, wanted())
    assert caught.value.code is ErrorCode.INVALID_REQUEST
    del machine.image.acls[b"0"]
    (result,) = delete(machine, wanted())
    assert len(result.matching_acls) == DECISION_RECORDS_MAX
    assert machine.image.acls == {}
    too_many = (creation(f"t{number}") for number in range(DECISION_RECORDS_MAX + 1))
    with pytest.raises(ApiError, match="create at most 10000"):
        create(machine, *too_many)


def test_entries_are_in_a_snapshot() -> None:
    machine = everything()
    delete(machine, wanted("u"))
    loaded = MetadataImage()
    for offset, record in enumerate(machine.image.to_records()):
        loaded.apply(decode_record(encode_record(record)), offset)
    assert loaded.acls == machine.image.acls
    assert list(loaded.acls) == list(machine.image.acls)


def test_a_filter_with_an_unknown_code_is_refused() -> None:
    with pytest.raises(ApiError, match="there is no pattern type 7"):
        AclFilter(ANY, None, 7, None, None, ANY, ANY).check()
