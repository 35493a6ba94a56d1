"""Equality, hash and repr of declared classes, shared instead of compiled for each class.

`dataclass` compiles these methods anew for every class, which would take most of the time of
importing the messages (about 130 classes). Classes with the shared methods ask `dataclass` for
none.
"""

from typing import Any, Final, TypeVar

T = TypeVar("T")
HIDDEN: Final = frozenset(
    {"auth_bytes", "hmac", "salt", "salted_password", "server_key", "stored_key", "secret"}
    | {"body", "datagram_key"}
)
"""Fields whose values are or may hold secrets: `repr` shows three asterisks in their place."""


def with_shared_methods(cls: type[T], *, is_hashable: bool) -> type[T]:
    """Set equality, hash and repr on a class that is about to become a slotted dataclass."""
    made: Any = cls
    made.__eq__, made.__repr__ = _equal, _repr
    made.__hash__ = _hash if is_hashable else None
    return cls


def _values(one: Any) -> tuple[Any, ...]:
    return tuple([getattr(one, name) for name in one.__dataclass_fields__])


def _equal(one: Any, other: Any) -> Any:
    return _values(one) == _values(other) if one.__class__ is other.__class__ else NotImplemented


def _hash(one: Any) -> int:
    return hash(_values(one))


def _repr(one: Any) -> str:
    shown = ", ".join(
        f"{name}={'***' if name in HIDDEN else repr(getattr(one, name))}"
        for name in one.__dataclass_fields__
    )
    return f"{one.__class__.__qualname__}({shown})"
