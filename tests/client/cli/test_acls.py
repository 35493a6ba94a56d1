"""`minikafka acls`: flags become entries and filters, and Kafka's texts."""

import io
from collections.abc import Iterable

import pytest

from minikafka import Acl, AclFilter, AclOperation, AclPattern, AclPermission, AclResource
from minikafka.client.admin.acls import EVERYTHING
from minikafka.protocol.errors import ApiError, ErrorCode

from .conftest import Run
from .fake_admin import FakeAdmin

ACLS = ("acls", "--bootstrap-server", "localhost:1")
ADD, LIST, REMOVE = (*ACLS, "--add"), (*ACLS, "--list"), (*ACLS, "--remove", "--force")
ERIN = ("--allow-principal", "User:erin")
OP = AclOperation
TOPIC, GROUP, TXN = AclResource.TOPIC, AclResource.GROUP, AclResource.TRANSACTIONAL_ID


class Entries(FakeAdmin):
    """An admin of a cluster that keeps entries."""

    def __init__(self) -> None:
        super().__init__()
        self.acls: dict[Acl, None] = {}

    async def describe_acls(self, wanted: AclFilter = EVERYTHING) -> list[Acl]:
        if "acls" in self.refused:
            raise self.refused["acls"]
        return [acl for acl in self.acls if wanted.matches(acl)]

    async def create_acls(self, acls: Iterable[Acl]) -> None:
        self.acls |= dict.fromkeys(acls)

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[Acl]:
        wanted = list(filters)
        gone = [acl for acl in self.acls if any(each.matches(acl) for each in wanted)]
        for acl in gone:
            del self.acls[acl]
        return gone


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Entries:
    fake = Entries()
    monkeypatch.setattr("minikafka.client.admin.admin.Admin", fake)
    return fake


def told(admin: Entries) -> list[tuple[int, str, int, str, int]]:
    return [
        (acl.resource_type, acl.resource_name, acl.operation, acl.principal, acl.permission)
        for acl in admin.acls
    ]


def test_what_a_producer_needs_is_added_and_printed_as_by_kafka(run: Run, entries: Entries) -> None:
    added = run(*ADD, *ERIN, "--producer", "--topic", "t1")
    assert added == (
        0,
        "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t1,"
        " patternType=LITERAL)`: \n"
        " \t(principal=User:erin, host=*, operation=WRITE, permissionType=ALLOW)\n"
        "\t(principal=User:erin, host=*, operation=CREATE, permissionType=ALLOW)\n"
        "\t(principal=User:erin, host=*, operation=DESCRIBE, permissionType=ALLOW)\n\n",
        "",
    )
    again = run(*ADD, *ERIN, "--operation", "Write", "--topic", "t1")
    assert again.out == (
        "Acl (pattern=ResourcePattern(resourceType=TOPIC, name=t1, patternType=LITERAL),"
        " entry=(principal=User:erin, host=*, operation=WRITE, permissionType=ALLOW))"
        " already exists.\n"
    )
    assert [operation for _, _, operation, _, _ in told(entries)] == [
        OP.WRITE,
        OP.CREATE,
        OP.DESCRIBE,
    ]


def test_roles_of_one_command_are_added_together(run: Run, entries: Entries) -> None:
    roles = ("--producer", "--idempotent", "--consumer", "--topic", "t", "--group", "g")
    assert run(*ADD, *ERIN, *roles, "--transactional-id", "x").code == 0
    found = {(kind, name): [] for kind, name, *_ in told(entries)}  # type: ignore[var-annotated]
    for kind, name, operation, *_ in told(entries):
        found[kind, name].append(operation)
    assert found == {
        (TOPIC, "t"): [OP.READ, OP.WRITE, OP.CREATE, OP.DESCRIBE],
        (GROUP, "g"): [OP.READ],
        (TXN, "x"): [OP.WRITE, OP.DESCRIBE],
        (AclResource.CLUSTER, "kafka-cluster"): [OP.IDEMPOTENT_WRITE],
    }


def test_each_principal_gets_each_operation_from_each_host(run: Run, entries: Entries) -> None:
    who = ("--deny-principal", "User:x", "--deny-principal", "User:y")
    hosts = ("--deny-host", "10.0.0.1", "--deny-host", "::1", *ERIN)
    what = ("--operation", "read", "--operation", "DescribeConfigs")
    prefixed = ("--resource-pattern-type", "prefixed", "--cluster")
    assert run(*ADD, *who, *hosts, *what, "--topic", "p", *prefixed).code == 0
    denied = [acl for acl in entries.acls if acl.permission == AclPermission.DENY]
    assert [(acl.principal, acl.host, acl.operation) for acl in denied] == [
        (principal, host, operation)
        for principal in ("User:x", "User:y")
        for host in ("10.0.0.1", "::1")
        for operation in (OP.READ, OP.DESCRIBE_CONFIGS)
    ]
    assert [acl.host for acl in entries.acls if acl not in denied] == ["*"] * 2
    assert {acl.pattern_type for acl in entries.acls} == {AclPattern.PREFIXED}


def test_entries_are_listed_by_resource_and_by_principal(run: Run, entries: Entries) -> None:
    run(*ADD, *ERIN, "--operation", "Read", "--topic", "t", "--group", "g")
    run(*ADD, "--allow-principal", "User:bob", "--topic", "t", "--resource-pattern-type=prefixed")
    literal = "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)"
    of_erin = "\t(principal=User:erin, host=*, operation=READ, permissionType=ALLOW)\n"
    one = f"Current ACLs for resource `{literal}`:\n{of_erin}\n"
    assert run(*LIST, "--topic", "t").out == one
    prefixed = one.replace("LITERAL", "PREFIXED")
    prefixed = prefixed.replace("erin", "bob").replace("READ", "ALL")
    assert run(*LIST, "--topic", "tt", "--resource-pattern-type", "match").out == prefixed
    of_group = one.replace("TOPIC", "GROUP").replace("name=t,", "name=g,")
    assert run(*LIST).out == of_group + one + prefixed
    by_principal = run(*LIST, "--principal", "User:bob", "--principal", "User:eve").out
    assert (
        by_principal == f"ACLs for principal `User:bob`\n{prefixed}ACLs for principal `User:eve`\n"
    )


def test_entries_are_removed_by_resource_or_one_by_one(run: Run, entries: Entries) -> None:
    run(*ADD, *ERIN, "--producer", "--topic", "t", "--topic", "u")
    assert run(*REMOVE, *ERIN, "--operation", "Write", "--topic", "t") == (0, "", "")
    assert [name for _, name, *_ in told(entries)] == ["t", "t", "u", "u", "u"]
    run(*REMOVE, "--topic", "t", "--topic", "none")
    assert [name for _, name, *_ in told(entries)] == ["u", "u", "u"]


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("", 1)])
def test_a_removal_is_asked_for(
    run: Run, entries: Entries, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    run(*ADD, *ERIN, "--topic", "t")
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    out = run(*ACLS, "--remove", "--topic", "t", "--resource-pattern-type", "any").out
    assert out == (
        "Are you sure you want to delete all ACLs for resource filter"
        " `ResourcePattern(resourceType=TOPIC, name=t, patternType=ANY)`? (y/n)\n"
    )
    assert len(entries.acls) == left


def test_a_cluster_without_an_authorizer_says_so(run: Run, entries: Entries) -> None:
    entries.refused["acls"] = ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured")
    result = run(*LIST)
    assert result == (1, "", "Error while executing ACL command: No Authorizer is configured\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (ACLS, "exactly one action: --list, --add, --remove"),
        ((*ADD, "--list"), "exactly one action"),
        ((*ADD, "--topic", "t"), "one of: --allow-principal, --deny-principal"),
        ((*ADD, *ERIN), "You must provide at least one resource"),
        ((*ADD, *ERIN, "--producer"), "With --producer you must specify a --topic"),
        ((*ADD, *ERIN, "--consumer", "--topic", "t"), "you must specify a --topic and a --group"),
        ((*ADD, *ERIN, "--topic", "t", "--idempotent"), "only available if --producer is set"),
        ((*ADD, "--principal", "User:a", "--topic", "t"), "only available if --list is set"),
        ((*ADD, *ERIN, "--topic=t", "--resource-pattern-type=any"), "value of 'ANY' is not valid"),
        ((*ADD, *ERIN, "--group", "g", "--operation", "Create"), "GROUP only supports operations"),
        ((*ADD, *ERIN, "--group", "g", "--operation", "Jump"), "--operation Jump: known are All"),
        ((*ADD, "--allow-principal", "e", "--topic", "t"), "principalType:principalName but got e"),
        ((*REMOVE,), "You must provide at least one resource"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    run: Run, entries: Entries, arguments: tuple[str, ...], words: str
) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert words in " ".join(result.err.split())
    assert entries.acls == {}
