"""Groups as plain values: listings, and descriptions with their members."""

from typing import NamedTuple

from ...protocol.types import TopicPartition


class GroupListing(NamedTuple):
    """A group as `list_groups` returns it."""

    group_id: str
    protocol_type: str
    """`consumer` for consumers; empty if the group never had members."""
    state: str
    """`Stable`, `Empty`, ...; empty if the broker is too old to return it."""
    type: str
    """`classic` or `consumer`; empty if the broker is too old to return it."""


class GroupMember(NamedTuple):
    """One member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """The assigned partitions; empty unless the group's members are consumers."""


class GroupDescription(NamedTuple):
    """A group of the classic protocol."""

    group_id: str
    state: str
    """`Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Dead`."""
    protocol_type: str
    protocol: str
    """The protocol that the members agreed on; for consumers the name of an assignor."""
    members: tuple[GroupMember, ...]
    coordinator_id: int
