"""The observer of a client's connections, which counts their requests and answers."""

from typing import Protocol


class Traffic(Protocol):
    """Is notified of connections, requests and answers; its methods must be cheap.

    `address` is the broker's address. Times are monotonic ms.
    """

    def on_opened(self, address: str) -> None:
        """Note that a TCP connection was made."""

    def on_closed(self, address: str) -> None:
        """Note that a connection has ended."""

    def on_sent(self, size: int) -> None:
        """Note that a request of `size` bytes was handed to the transport."""

    def on_answered(self, address: str, size: int, sent_ms: int) -> None:
        """Note an answer of `size` bytes to the request that was sent at `sent_ms`."""
