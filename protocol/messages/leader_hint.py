"""The present leader of a partition, given with a refusal so that no client must ask (KIP-951)."""

from ..schema import Int32, String, field, nested


@nested
class LeaderIdAndEpoch:
    """The leader this broker knows of."""

    leader_id: Int32 = field(default=-1)
    """The leader's id; -1 if there is none."""
    leader_epoch: Int32 = field(default=-1)


@nested
class NodeEndpoint:
    """The endpoint of a leader named in the same response."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)
