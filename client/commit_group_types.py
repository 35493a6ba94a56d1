"""What users of commit groups hand in and get back.

Plain values, which may be pickled and sent to another process; nothing here reads or writes.
"""

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """An open transaction with every record acknowledged, for somebody else to commit."""

    transactional_id: str
    producer_id: int
    epoch: int


class CommitGroupState(NamedTuple):
    """What a run needs to know of its group."""

    generation: int
    """That of the run: said at each commit, so that runs before it are refused."""
    batch_id: int
    """The newest batch that is recorded; -1: none."""
