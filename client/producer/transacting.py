"""The transaction calls of a producer, as its user makes them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Self

from ..errors import ClientError
from ..group_types import ConsumerGroupMetadata, PreparedTransaction
from .transaction_requests import Offsets
from .transactions import Transactions


class Transacting:
    """A producer's transactions; each call raises TransactionMisuse in the wrong order."""

    def _transacting(self) -> Transactions:
        raise NotImplementedError

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Begin a transaction, commit it at the end of the block; abort it if the block raises.

        A commit that fails is aborted, and raises why: TransactionAbortable (do the work again),
        ProducerFenced or TransactionFailed (close this producer). After RequestTimedOut the
        outcome is not known: `commit_transaction` again.
        """
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction()
        except BaseException:
            if self.can_abort:
                # What the block raised says more than why even aborting failed.
                with suppress(ClientError):
                    await self.abort_transaction()
            raise

    @property
    def can_abort(self) -> bool:
        """Is there a transaction that can be aborted?"""
        return self._transacting().state.can_abort

    async def begin_transaction(self) -> None:
        """Begin a transaction; TransactionMisuse if one is open."""
        await self._transacting().begin()

    async def commit_transaction(self) -> None:
        """Wait for all records, then commit; raises as `transaction` does, and aborts nothing."""
        await self._transacting().commit()

    async def abort_transaction(self) -> None:
        """Abort: no record of the transaction counts. Records not sent fail: TransactionAborted."""
        await self._transacting().abort()

    async def prepare_transaction(self) -> PreparedTransaction | None:
        """Wait for all records, and leave the transaction open, for `Admin.commit_group`.

        None where there is nothing to commit. Raises as `commit_transaction` does. From then on
        the transaction is the group's: this producer neither ends it, nor does closing it; its
        next `begin_transaction` takes the transactional id over anew, and what is still open of it
        then is aborted.
        """
        return await self._transacting().prepare()

    async def send_offsets(self, offsets: Offsets, group: ConsumerGroupMetadata | str) -> None:
        """Commit a group's offsets with the transaction: the next offset to read by partition.

        `group` is `consumer.group_metadata()`, so that a member that lost its partitions is
        refused (TransactionAbortable), or a group id, which protects from nothing.
        """
        who = ConsumerGroupMetadata(group) if isinstance(group, str) else group
        await self._transacting().send_offsets(offsets, who)
