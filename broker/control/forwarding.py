"""What the edge asks of the active controller on behalf of clients.

A contract only: the way there, retries and deadlines belong to whoever implements it.
"""

from typing import Protocol


class Controller(Protocol):
    """The way to the active controller; both raise ApiError where there is none in time."""

    async def forward(self, api_key: int, api_version: int, body: bytes) -> bytes:
        """Have an admin request carried out: Kafka bodies both ways."""

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """Reserve producer ids: the first, and how many."""
