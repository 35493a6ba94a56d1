"""The authorizer: decides, by Kafka's rule for its StandardAuthorizer, who may do what.

Pure. Super users may do everything. For others an entry that denies wins, then one that allows;
for a resource that no entry covers, allow.everyone.if.no.acl.found decides. A connection asks
through its `Rights`, which remember decisions until an entry changes.
"""

from typing import Final

from ..protocol.acls import CLUSTER_NAME, OPERATION_BITS, Acl, Operation, Resource
from ..protocol.control.image import Delta, MetadataImage
from .acl_index import EVERY, AclIndex, Keys, keys_of
from .authorizer_config import AuthorizerConfig
from .principal import Principal

MOST_REMEMBERED: Final = 10_000
"""The most decisions that one connection remembers; when it has so many, it forgets them all."""
LONGEST_REMEMBERED: Final = 256
"""The most characters of a resource's name whose decision is remembered. A client may send names of
32 KiB, and each connection would keep 10,000 of them."""
ANY_NAME: Final = "hardcode"
"""The name for which Kafka asks whether super users and defaults allow some resource of a type."""


class Authorizer:
    """The entries that a node has replayed, and its own settings."""

    def __init__(self, config: AuthorizerConfig) -> None:
        self._super_users = dict.fromkeys(config.super_principals)
        self._uncovered = EVERY if config.allow_if_no_acl else 0
        self._index = AclIndex()
        self.epoch = 0
        """A number that grows with each change of the entries."""

    def on_metadata(self, delta: Delta, image: MetadataImage) -> None:
        """Apply the changes of ACLs in `delta`; `image` is the metadata after them."""
        if delta.is_snapshot:
            self._index = AclIndex()
            for acl in image.acls.values():
                self._index.add(acl)
        elif not (delta.new_acls or delta.deleted_acls):
            return
        else:
            for acl in delta.deleted_acls.values():
                self._index.remove(acl)
            for acl in delta.new_acls.values():
                self._index.add(acl)
        self.epoch += 1

    def rights_of(self, principal: Principal, host: str) -> "Rights":
        """Return the rights of a principal at this address."""
        return Rights(self, principal, host)

    def is_super_user(self, principal: Principal) -> bool:
        """True if the principal may do everything."""
        return str(principal) in self._super_users

    def operations(self, keys: Keys, resource_type: int, name: str) -> int:
        """Return what a principal and host of these keys may do, as bits; not for super users."""
        found = self._index.operations(keys, resource_type, name)
        return self._uncovered if found is None else found

    def denying(
        self, keys: Keys, operation: Operation, resource_type: int, name: str
    ) -> Acl | None:
        """Return an ACL that denies a principal and host of `keys` the operation on this resource.

        Return None if there is none.
        """
        return self._index.denying(keys, operation, resource_type, name)

    def may_any(self, keys: Keys, operation: Operation, resource_type: int) -> bool:
        """True if a principal and host of these keys may do this with some resource of the type."""
        if self.operations(keys, resource_type, ANY_NAME) >> operation & 1:
            return True
        return self._index.may_any(keys, operation, resource_type)


class Rights:
    """The operations that one principal at one address may do, remembered once found out."""

    __slots__ = ("_authorizer", "_epoch", "_is_super", "_keys", "_known", "host", "principal")

    def __init__(self, authorizer: Authorizer, principal: Principal, host: str) -> None:
        self._authorizer = authorizer
        self.principal = principal
        self.host = host
        self._is_super = authorizer.is_super_user(principal)
        self._keys = keys_of(str(principal), host)
        self._epoch = authorizer.epoch
        self._known: dict[tuple[int, str], int] = {}

    def may(self, operation: Operation, resource_type: Resource, name: str = CLUSTER_NAME) -> bool:
        """True if the principal may do this with the resource of that name."""
        if self._epoch == self._authorizer.epoch:
            known = self._known.get((resource_type, name))
            if known is not None:
                return bool(known >> operation & 1)
        return bool(self.operations(resource_type, name) >> operation & 1)

    def operations(self, resource_type: Resource, name: str) -> int:
        """Return all that the principal may do with the resource, as bits by operation."""
        if self._is_super:
            return EVERY
        authorizer = self._authorizer
        if self._epoch != authorizer.epoch or len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
            self._epoch = authorizer.epoch
        known = self._known.get((resource_type, name))
        if known is None:
            known = authorizer.operations(self._keys, resource_type, name)
            if len(name) <= LONGEST_REMEMBERED:
                self._known[resource_type, name] = known
        return known

    def told_operations(self, resource_type: Resource, name: str = CLUSTER_NAME) -> int:
        """Return the operations that make sense on the resource and are allowed (KIP-430)."""
        return self.operations(resource_type, name) & OPERATION_BITS[resource_type]

    def denying(self, operation: Operation, resource_type: Resource, name: str) -> Acl | None:
        """Return an ACL that denies the operation.

        Return None if there is none; the operation may then be denied because no ACL allows it.
        """
        return self._authorizer.denying(self._keys, operation, resource_type, name)

    def may_any(self, operation: Operation, resource_type: Resource) -> bool:
        """True if the principal may do this with some resource of the type."""
        return self._is_super or self._authorizer.may_any(self._keys, operation, resource_type)
