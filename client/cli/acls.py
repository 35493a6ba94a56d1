"""`minikafka acls`: adds, removes and lists access control entries.

Owns flags, Kafka's texts and exit codes; the admin client does the work.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ...protocol.acls import (
    ANY,
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    Pattern,
    Permission,
    Resource,
)
from .common import administer, bootstrap_server, command_config

if TYPE_CHECKING:
    from ..admin.admin import Admin

COMPLAINT = "Error while executing ACL command"
ACTIONS = ("add", "remove", "list")
NAMED = {
    "topic": Resource.TOPIC,
    "group": Resource.GROUP,
    "transactional_id": Resource.TRANSACTIONAL_ID,
    "delegation_token": Resource.DELEGATION_TOKEN,
    "user_principal": Resource.USER,
}
"""The kind of resource that each option with a resource's name stands for."""
OPERATION_NAMES = {each.name.replace("_", "").lower(): each for each in Operation}
PATTERNS = {"ANY": ANY, **{each.name: int(each) for each in Pattern}}


class Target(NamedTuple):
    """A resource pattern, or a filter for resource patterns, as the flags name it."""

    resource_type: Resource
    name: str
    pattern_type: int

    def __str__(self) -> str:
        return pattern_text(self.resource_type, self.name, self.pattern_type)


class Entry(NamedTuple):
    """An operation that one principal at one host is allowed or denied."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return entry_text(self.principal, self.host, self.operation, self.permission)


Wanted = Mapping[Target, Sequence[Entry]]


@click.command("acls")
@bootstrap_server
@command_config()
@click.option("--add", is_flag=True, help="Add entries.")
@click.option("--remove", is_flag=True, help="Remove entries.")
@click.option("--list", is_flag=True, help="Print entries.")
@click.option("--topic", multiple=True, help='A topic; "*" is every topic.')
@click.option("--group", multiple=True, help='A group; "*" is every group.')
@click.option("--transactional-id", multiple=True, help='A transactional id; "*" is every one.')
@click.option("--delegation-token", multiple=True, help='A delegation token; "*" is every one.')
@click.option("--user-principal", multiple=True, help="A user for whom tokens are made.")
@click.option("--cluster", is_flag=True, help="The cluster itself.")
@click.option(
    "--resource-pattern-type",
    "pattern",
    type=click.Choice(list(PATTERNS), case_sensitive=False),
    default="LITERAL",
    show_default=True,
    help="How names are meant. ANY and MATCH only with --list and --remove: MATCH is every entry"
    " that affects the resource.",
)
@click.option("--allow-principal", multiple=True, metavar="TYPE:NAME", help="Who is allowed.")
@click.option("--deny-principal", multiple=True, metavar="TYPE:NAME", help="Who is denied.")
@click.option("--allow-host", multiple=True, metavar="ADDRESS", help="From where; all if unset.")
@click.option("--deny-host", multiple=True, metavar="ADDRESS", help="From where; all if unset.")
@click.option("--operation", multiple=True, help="An operation, such as Read; all if unset.")
@click.option("--producer", is_flag=True, help="All that a producer needs of a --topic.")
@click.option("--consumer", is_flag=True, help="All that a consumer needs of --topic and --group.")
@click.option("--idempotent", is_flag=True, help="With --producer: idempotent, no transactions.")
@click.option("--principal", multiple=True, metavar="TYPE:NAME", help="List its entries only.")
@click.option("--force", is_flag=True, help="Remove without asking.")
def acls(bootstrap: str, command_config: Path | None, **flags: Any) -> None:
    """Say who may do what with which resources, on a cluster with an authorizer.

    \b
    minikafka acls --bootstrap-server localhost:9092 --add --allow-principal User:alice \\
        --producer --topic orders
    minikafka acls --bootstrap-server localhost:9092 --add --allow-principal User:bob \\
        --consumer --topic orders --group billing
    minikafka acls --bootstrap-server localhost:9092 --add --deny-principal User:eve \\
        --operation Read --topic pay --resource-pattern-type prefixed
    minikafka acls --bootstrap-server localhost:9092 --list --topic orders \\
        --resource-pattern-type match
    minikafka acls --bootstrap-server localhost:9092 --remove --topic orders
    """
    action = _action(flags)
    targets = list(_targets(flags))
    wanted: Wanted = {} if action == "list" else _wanted(flags, targets)

    async def carry_out(admin: "Admin") -> int:
        if action == "add":
            await _add(admin, wanted)
        elif action == "remove":
            await _remove(admin, wanted, is_forced=flags["force"])
        else:
            await _list(admin, targets, flags["principal"])
        return 0

    administer(carry_out, COMPLAINT, bootstrap, command_config)


def _action(flags: Mapping[str, Any]) -> str:
    """Return the one action that the flags name; raise UsageError if they do not fit together."""
    actions = [each for each in ACTIONS if flags[each]]
    if len(actions) != 1:
        why = "Command must include exactly one action: --list, --add, --remove."
        raise click.UsageError(why)
    (action,) = actions
    if flags["principal"] and action != "list":
        raise click.UsageError("The --principal option is only available if --list is set")
    if flags["producer"] and not flags["topic"]:
        raise click.UsageError("With --producer you must specify a --topic")
    if flags["idempotent"] and not flags["producer"]:
        raise click.UsageError("The --idempotent option is only available if --producer is set")
    if flags["consumer"]:
        of_producer = flags["transactional_id"] and not flags["producer"]
        if not (flags["topic"] and flags["group"]) or flags["cluster"] or of_producer:
            raise click.UsageError(
                "With --consumer you must specify a --topic and a --group and no --cluster or "
                "--transactional-id option should be specified."
            )
    if action == "add":
        if flags["pattern"] not in ("LITERAL", "PREFIXED"):
            raise click.UsageError(
                f"A '--resource-pattern-type' value of '{flags['pattern']}' is not valid when"
                " adding acls."
            )
        if not (flags["allow_principal"] or flags["deny_principal"]):
            raise click.UsageError(
                "You must specify one of: --allow-principal, --deny-principal when trying to add"
                " ACLs."
            )
    return action


def _targets(flags: Mapping[str, Any]) -> Iterator[Target]:
    pattern = PATTERNS[flags["pattern"]]
    for option, resource in NAMED.items():
        for name in flags[option]:
            yield Target(resource, name, pattern)
    if pattern == Pattern.LITERAL and (flags["cluster"] or flags["idempotent"]):
        yield Target(Resource.CLUSTER, CLUSTER_NAME, pattern)


def _wanted(flags: Mapping[str, Any], targets: Sequence[Target]) -> Wanted:
    """Return the entries that the flags name for each resource.

    Raise UsageError for an operation that a resource does not have.
    """
    if not targets:
        raise click.UsageError(
            "You must provide at least one resource: --topic <topic> or --cluster or --group"
            " <group> or --delegation-token <Delegation Token ID>"
        )
    wanted: dict[Target, list[Entry]] = {}
    for target in targets:
        operations = _operations(flags, target.resource_type)
        known = (*OPERATIONS[target.resource_type], Operation.ALL)
        if any(each not in known for each in operations):
            names = ", ".join(each.name for each in sorted(known))
            kind = target.resource_type.name
            raise click.UsageError(f"ResourceType {kind} only supports operations [{names}]")
        if operations:
            wanted[target] = list(_entries(flags, operations))
    return wanted


def _operations(flags: Mapping[str, Any], resource: Resource) -> list[Operation]:
    """Return the operations on a resource: those named, all, or those of producers or consumers."""
    found: list[Operation] = []
    is_role = flags["producer"] or flags["consumer"]
    if flags["producer"]:
        found += {
            Resource.TOPIC: [Operation.WRITE, Operation.DESCRIBE, Operation.CREATE],
            Resource.TRANSACTIONAL_ID: [Operation.WRITE, Operation.DESCRIBE],
            Resource.CLUSTER: [Operation.IDEMPOTENT_WRITE] if flags["idempotent"] else [],
        }.get(resource, [])
    if flags["consumer"]:
        found += {
            Resource.TOPIC: [Operation.READ, Operation.DESCRIBE],
            Resource.GROUP: [Operation.READ],
        }.get(resource, [])
    if is_role:
        return sorted(dict.fromkeys(found))
    return [_operation(name) for name in flags["operation"] or ("All",)]


def _operation(name: str) -> Operation:
    known = OPERATION_NAMES.get(name.replace("_", "").lower())
    if known is None:
        names = ", ".join(each.name.title().replace("_", "") for each in Operation)
        raise click.UsageError(f"--operation {name}: known are {names}")
    return known


def _entries(flags: Mapping[str, Any], operations: Sequence[Operation]) -> Iterator[Entry]:
    for permission, who, where in (
        (Permission.ALLOW, "allow_principal", "allow_host"),
        (Permission.DENY, "deny_principal", "deny_host"),
    ):
        for principal in dict.fromkeys(flags[who]):
            if not all(principal.partition(":")):
                raise click.UsageError(
                    "expected a string in format principalType:principalName but got " + principal
                )
            for host in dict.fromkeys(flags[where]) or (WILDCARD,):
                for operation in operations:
                    yield Entry(principal, host, operation, permission)


async def _add(admin: "Admin", wanted: Wanted) -> None:
    for target, entries in wanted.items():
        known = dict.fromkeys(await admin.describe_acls(_filter(target)))
        new: list[Acl] = []
        for entry in entries:
            acl = Acl(*target, entry.principal, entry.host, entry.operation, entry.permission)
            if acl in known:
                print(f"Acl (pattern={target}, entry={entry}) already exists.")
            else:
                new.append(acl)
        if new:
            told = "\n".join(f"\t{_entry_of(acl)}" for acl in new)
            print(f"Adding ACLs for resource `{target}`: \n {told}\n")
            await admin.create_acls(new)


async def _remove(admin: "Admin", wanted: Wanted, *, is_forced: bool) -> None:
    for target, entries in wanted.items():
        question = f"Are you sure you want to delete all ACLs for resource filter `{target}`? (y/n)"
        filters = [_filter(target)]
        if entries:
            told = "\n".join(f"\t{entry}" for entry in entries)
            question = (
                f"Are you sure you want to remove ACLs: \n {told}\n"
                f" from resource filter `{target}`? (y/n)"
            )
            filters = [_filter(target, entry) for entry in entries]
        if is_forced or _is_confirmed(question):
            await admin.delete_acls(filters)


def _is_confirmed(question: str) -> bool:
    print(question, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


async def _list(admin: "Admin", targets: Sequence[Target], principals: Sequence[str]) -> None:
    filters = [_filter(target) for target in targets] or [_filter(None)]
    found: dict[Acl, None] = {}
    for each in filters:
        found |= dict.fromkeys(await admin.describe_acls(each))
    if not principals:
        _print(found)
    for principal in principals:
        print(f"ACLs for principal `{principal}`")
        _print(acl for acl in found if acl.principal == principal)


def _print(found: Iterable[Acl]) -> None:
    """Print the entries, sorted and grouped by resource."""
    resources: dict[str, list[str]] = {}
    for acl in found:
        pattern = pattern_text(acl.resource_type, acl.resource_name, acl.pattern_type)
        resources.setdefault(pattern, []).append(_entry_of(acl))
    for pattern in sorted(resources):
        print(f"Current ACLs for resource `{pattern}`:")
        print("".join(f"\t{entry}\n" for entry in sorted(resources[pattern])))


def _filter(target: Target | None, entry: Entry | None = None) -> AclFilter:
    return AclFilter(
        resource_type=ANY if target is None else target.resource_type,
        resource_name=None if target is None else target.name,
        pattern_type=ANY if target is None else target.pattern_type,
        principal=None if entry is None else entry.principal,
        host=None if entry is None else entry.host,
        operation=ANY if entry is None else entry.operation,
        permission=ANY if entry is None else entry.permission,
    )


def _entry_of(acl: Acl) -> str:
    return entry_text(acl.principal, acl.host, acl.operation, acl.permission)


def entry_text(principal: str, host: str, operation: int, permission: int) -> str:
    """Return an entry as Kafka's tool prints it."""
    return (
        f"(principal={principal}, host={host}, operation={Operation(operation).name},"
        f" permissionType={Permission(permission).name})"
    )


def pattern_text(resource_type: int, name: str, pattern_type: int) -> str:
    """Return a resource pattern as Kafka's tool prints it."""
    pattern = "ANY" if pattern_type == ANY else Pattern(pattern_type).name
    return (
        f"ResourcePattern(resourceType={Resource(resource_type).name}, name={name},"
        f" patternType={pattern})"
    )
