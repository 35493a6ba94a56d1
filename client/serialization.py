"""The types of functions that turn keys and values into bytes and back.

Clients are generic in key and value; without a serializer both are bytes. A serializer is a
function that the user passes, not the name of a class as in Kafka's clients.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Only type checkers need the defaults: `Producer` alone means Producer[bytes, bytes].
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes)
    V = TypeVar("V", default=bytes)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

Serializer = Callable[[K], bytes]
"""Turns a key or value into bytes. Never called for None, which is written as null."""
Deserializer = Callable[[bytes], K]
"""Turns bytes into a key or value. Never called for null, which is read as None."""
