"""The types of ACLs under their public names: an entry, a filter, and the enums of their fields."""

from ...protocol.acls import Acl as Acl
from ...protocol.acls import AclFilter as AclFilter
from ...protocol.acls import Operation as AclOperation
from ...protocol.acls import Pattern as AclPattern
from ...protocol.acls import Permission as AclPermission
from ...protocol.acls import Resource as AclResource

__all__ = ["Acl", "AclFilter", "AclOperation", "AclPattern", "AclPermission", "AclResource"]
