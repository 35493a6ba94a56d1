"""The leader of a partition, sent with an error so that no Metadata request is needed (KIP-951)."""

from ..schema import Int32, String, field, nested


@nested
class LeaderIdAndEpoch:
    """The leader of a partition and its epoch, as the answering broker knows them."""

    leader_id: Int32 = field(default=-1)
    """The leader's id; -1 if there is none."""
    leader_epoch: Int32 = field(default=-1)


@nested
class NodeEndpoint:
    """The address of a leader that the same response names."""

    node_id: Int32
    host: String
    port: Int32
    rack: String | None = field(default=None)
