"""Access control entries (ACLs): their fields, their codes in Kafka's protocol, and filters.

An entry allows or denies a principal one operation, from one host, on the resources that a pattern
covers. The authorizer in `security/` decides by them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeVar

from .errors import ApiError, ErrorCode

ANY: Final = 1
"""The code that leaves a field of a filter open, so that every value matches."""
WILDCARD: Final = "*"
"""The name in a literal pattern that covers every resource, and the host that means any host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name that a resource of type CLUSTER has."""


class Operation(IntEnum):
    """The action of a principal on a resource."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """The type of a resource."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Pattern(IntEnum):
    """The ways to compare a pattern's name with a resource's name; MATCH occurs in filters only."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """The effect of an entry."""

    DENY = 2
    ALLOW = 3


OPERATIONS: Final = {
    Resource.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    Resource.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    Resource.TRANSACTIONAL_ID: (
        Operation.DESCRIBE,
        Operation.WRITE,
        Operation.TWO_PHASE_COMMIT,
    ),
    Resource.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    Resource.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that are meaningful on each type of resource, besides ALL (KIP-430)."""


def bits(operations: Sequence[Operation]) -> int:
    """Return the operations as a bit set; the bit number of an operation is its code."""
    return sum(1 << operation for operation in operations)


OPERATION_BITS: Final = {resource: bits(operations) for resource, operations in OPERATIONS.items()}
"""The operations of each type of resource as a bit set, as `bits` makes it."""


def _named(codes: type[IntEnum], code: int) -> str:
    """Return the name of a code, or the code if it has none."""
    return next((each.name for each in codes if each == code), str(code))


@dataclass(frozen=True, slots=True)
class Acl:
    """One access control entry; its codes are those of the enumerations above."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        """Return the entry as Kafka prints it."""
        return (
            f"StandardAcl[resourceType={_named(Resource, self.resource_type)},"
            f" resourceName={self.resource_name},"
            f" patternType={_named(Pattern, self.pattern_type)},"
            f" principal={self.principal}, host={self.host},"
            f" operation={_named(Operation, self.operation)},"
            f" permissionType={_named(Permission, self.permission)}]"
        )


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A condition on entries; None, or ANY for a code, leaves a field open.

    The pattern type MATCH selects the entries whose patterns cover the resource of that name.
    """

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """True if the entry meets the filter's condition."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        name, kind = self.resource_name, self.pattern_type
        if kind not in (ANY, Pattern.MATCH, acl.pattern_type):
            return False
        if name is None or name == acl.resource_name:
            return True
        if kind != Pattern.MATCH:
            return False
        if acl.pattern_type == Pattern.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD

    def check(self) -> None:
        """Raise ApiError (INVALID_REQUEST) if a code of the filter does not exist."""
        for codes, code, what in (
            (Resource, self.resource_type, "resource type"),
            (Pattern, self.pattern_type, "pattern type"),
            (Operation, self.operation, "operation"),
            (Permission, self.permission, "permission type"),
        ):
            if code != ANY:
                checked(codes, code, what)


E = TypeVar("E", bound=IntEnum)


def checked(codes: type[E], code: int, what: str) -> E:
    """Return the member of an enumeration; raise ApiError (INVALID_REQUEST) for an unknown code.

    `what` names the field in the error.
    """
    try:
        return codes(code)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no {what} {code}") from None


def check_new(acl: Acl) -> None:
    """Raise ApiError (INVALID_REQUEST) if an entry like this cannot be created.

    Any operation is accepted on any type of resource, as in Kafka, even if it is meaningless there.
    """
    checked(Resource, acl.resource_type, "resource type")
    checked(Operation, acl.operation, "operation")
    checked(Permission, acl.permission, "permission type")
    kind = checked(Pattern, acl.pattern_type, "pattern type")
    why = ""
    if kind is Pattern.MATCH:
        why = "the pattern of an entry is LITERAL or PREFIXED"
    elif not acl.resource_name:
        why = "the resource has no name"
    elif acl.resource_type == Resource.CLUSTER and acl.resource_name != CLUSTER_NAME:
        why = f"the only valid name of the CLUSTER resource is {CLUSTER_NAME}"
    elif ":" not in acl.principal:
        why = "the principal has no colon between its type and its name, as in User:alice"
    if why:
        raise ApiError(ErrorCode.INVALID_REQUEST, why)
