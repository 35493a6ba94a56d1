"""Groups as plain values: listed, and described with their members."""

from typing import NamedTuple

from ...protocol.types import TopicPartition


class GroupListing(NamedTuple):
    """A group in brief."""

    group_id: str
    protocol_type: str
    """`consumer` for consumers; empty where a group never had members."""
    state: str
    """`Stable`, `Empty`, ...; empty where the broker is too old to say."""
    type: str
    """`classic` or `consumer`; empty where the broker is too old to say."""


class GroupMember(NamedTuple):
    """One member of a group."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """Empty unless the group's members are consumers."""


class GroupDescription(NamedTuple):
    """A group of the classic protocol."""

    group_id: str
    state: str
    """`Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Dead`."""
    protocol_type: str
    protocol: str
    """The protocol that its members agreed on; for consumers the name of an assignor."""
    members: tuple[GroupMember, ...]
    coordinator_id: int
