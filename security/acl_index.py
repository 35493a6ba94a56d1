"""An index of access control entries: finds what one principal may do with one resource.

Pure. The entries of each pattern are kept by principal and host, so that a decision looks only at
patterns that cover the resource, and in them only at entries that may concern the principal.
Kafka's rule is in `AclIndex.operations`; nothing here knows of super users or of defaults.
"""

import ipaddress
from bisect import insort
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ..protocol.acls import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    Pattern,
    Permission,
    bits,
)

ALL: Final = 1 << Operation.ALL
EVERY: Final = bits(tuple(Operation))
"""All operations, one bit per code."""
DESCRIBE: Final = 1 << Operation.DESCRIBE
IMPLY_DESCRIBE: Final = bits(
    (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE)
)
DESCRIBE_CONFIGS: Final = 1 << Operation.DESCRIBE_CONFIGS
IMPLY_DESCRIBE_CONFIGS: Final = 1 << Operation.ALTER_CONFIGS

Key = tuple[str, str]
"""The principal and the host of an entry."""
Keys = tuple[Key, ...]


def keys_of(principal: str, host: str) -> Keys:
    """Return the principals and hosts of all entries that concern this principal at this host."""
    address = host_key(host)
    return tuple(
        (who, where) for who in (principal, WILDCARD_PRINCIPAL) for where in (address, WILDCARD)
    )


def host_key(host: str) -> str:
    """Return an address in one spelling, to be compared: an IPv6 address has several."""
    if ":" in host:
        try:
            return str(ipaddress.ip_address(host))
        except ValueError:
            pass
    return host


class _Grants:
    """The operations that a pattern's entries allow and deny one principal at one host, as bits."""

    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = self.denied = 0


Entries = dict[Key, _Grants]
"""The entries of one pattern."""


class _OfType:
    """The patterns of one type of resource."""

    __slots__ = ("lengths", "literals", "prefixes")

    def __init__(self) -> None:
        self.literals: dict[str, Entries] = {}
        self.prefixes: dict[str, Entries] = {}
        self.lengths: list[int] = []
        """The different lengths of the prefixes, in ascending order."""

    def covering(self, name: str) -> Iterator[Entries]:
        """Yield the entries of every pattern that covers the resource of this name."""
        found = self.literals.get(name)
        if found is not None:
            yield found
        longest, prefixes = len(name), self.prefixes
        for length in self.lengths:
            if length > longest:
                break
            found = prefixes.get(name[:length])
            if found is not None:
                yield found
        if name != WILDCARD:
            found = self.literals.get(WILDCARD)
            if found is not None:
                yield found

    def named(self, pattern_type: int) -> dict[str, Entries]:
        """Return the patterns of this type by their names."""
        return self.prefixes if pattern_type == Pattern.PREFIXED else self.literals

    def note_lengths(self) -> None:
        """Set the lengths of the prefixes anew, because a prefix has gone."""
        self.lengths = sorted(dict.fromkeys(map(len, self.prefixes)))


class AclIndex:
    """The entries of a cluster, two of which may differ only in the spelling of an address."""

    def __init__(self) -> None:
        self._types: dict[int, _OfType] = {}
        self._more: dict[Acl, int] = {}
        """The number of times that an entry was added again, by entry."""

    def add(self, acl: Acl) -> None:
        """Add an entry."""
        of_type = self._types.setdefault(acl.resource_type, _OfType())
        named = of_type.named(acl.pattern_type)
        entries = named.get(acl.resource_name)
        if entries is None:
            entries = named[acl.resource_name] = {}
            length = len(acl.resource_name)
            if acl.pattern_type == Pattern.PREFIXED and length not in of_type.lengths:
                insort(of_type.lengths, length)
        grants = entries.setdefault((acl.principal, host_key(acl.host)), _Grants())
        is_denied, bit = acl.permission == Permission.DENY, 1 << acl.operation
        if bit & (grants.denied if is_denied else grants.allowed):
            same = replace(acl, host=host_key(acl.host))
            self._more[same] = self._more.get(same, 0) + 1
        elif is_denied:
            grants.denied |= bit
        else:
            grants.allowed |= bit

    def remove(self, acl: Acl) -> None:
        """Remove an entry of the index. A pattern without entries covers no name any more."""
        same = replace(acl, host=host_key(acl.host))
        more = self._more.pop(same, 0)
        if more:
            if more > 1:
                self._more[same] = more - 1
            return
        of_type = self._types[acl.resource_type]
        named = of_type.named(acl.pattern_type)
        entries, key = named[acl.resource_name], (acl.principal, host_key(acl.host))
        grants = entries[key]
        if acl.permission == Permission.DENY:
            grants.denied &= ~(1 << acl.operation)
        else:
            grants.allowed &= ~(1 << acl.operation)
        if not (grants.allowed or grants.denied):
            del entries[key]
        if not entries:
            del named[acl.resource_name]
            if acl.pattern_type == Pattern.PREFIXED:
                of_type.note_lengths()

    def operations(self, keys: Keys, resource_type: int, name: str) -> int | None:
        """Return the allowed operations as bits; None if no entry covers the resource at all.

        An entry that denies wins over all that allow. Entries for other principals count as
        covering, too. Allowing to read, write, delete or alter implies to describe, and to alter
        configs implies to describe them; denying implies nothing.
        """
        of_type = self._types.get(resource_type)
        if of_type is None:
            return None
        is_covered, allowed, denied = False, 0, 0
        for entries in of_type.covering(name):
            is_covered = True
            for key in keys:
                grants = entries.get(key)
                if grants is not None:
                    allowed |= grants.allowed
                    denied |= grants.denied
        return _implied(allowed) & ~_denied(denied) if is_covered else None

    def denying(
        self, keys: Keys, operation: Operation, resource_type: int, name: str
    ) -> Acl | None:
        """Return an entry that denies the operation on the resource; None if there is none."""
        of_type = self._types.get(resource_type)
        if of_type is None:
            return None
        prefixes = (name[:length] for length in of_type.lengths if length <= len(name))
        for kind, pattern in (
            (Pattern.LITERAL, name),
            *((Pattern.PREFIXED, prefix) for prefix in prefixes),
            (Pattern.LITERAL, WILDCARD),
        ):
            entries = of_type.named(kind).get(pattern, {})
            for key in keys:
                denied = entries[key].denied if key in entries else 0
                for code in (operation, Operation.ALL):
                    if denied >> code & 1:
                        return Acl(resource_type, pattern, kind, *key, code, Permission.DENY)
        return None

    def may_any(self, keys: Keys, operation: Operation, resource_type: int) -> bool:
        """True if some resource of the type exists for which the operation is allowed.

        An allowing pattern counts unless it is covered by a denying one, as in Kafka's
        `authorizeByResourceType`. Nothing is implied here.
        """
        of_type = self._types.get(resource_type)
        if of_type is None:
            return False
        wanted = ALL | 1 << operation

        def grants(entries: Entries) -> tuple[int, int]:
            found = [entries[key] for key in keys if key in entries]
            return (
                any(each.allowed & wanted for each in found),
                any(each.denied & wanted for each in found),
            )

        literals = {name: grants(entries) for name, entries in of_type.literals.items()}
        prefixes = {name: grants(entries) for name, entries in of_type.prefixes.items()}
        allowed, denied = literals.get(WILDCARD, (False, False))
        if allowed or denied:
            return not denied

        def is_dominated(name: str) -> bool:
            return any(
                name[:length] in prefixes and prefixes[name[:length]][1]
                for length in of_type.lengths
                if length <= len(name)
            )

        for name, (allowed, denied) in literals.items():
            if allowed and not denied and not is_dominated(name):
                return True
        return any(allowed and not is_dominated(name) for name, (allowed, _) in prefixes.items())


def _implied(allowed: int) -> int:
    if allowed & ALL:
        return EVERY
    if allowed & IMPLY_DESCRIBE:
        allowed |= DESCRIBE
    if allowed & IMPLY_DESCRIBE_CONFIGS:
        allowed |= DESCRIBE_CONFIGS
    return allowed


def _denied(denied: int) -> int:
    return EVERY if denied & ALL else denied
