"""Results made of schemas, kept so that each is made once and not for each record.

A schema is looked up by identity first, which costs nothing, then by equality. Bounded: the oldest
entry goes first.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from .data import Schema

T = TypeVar("T")


class SchemaCache(Generic[T]):
    """Results of `build(schema)`, at most `size` of them."""

    def __init__(self, size: int, build: Callable[[Schema], T]) -> None:
        self._size = size
        self._build = build
        self._by_identity: dict[int, tuple[Schema, T]] = {}
        """Holds each schema, so that no other takes its identity."""
        self._by_value: dict[Schema, T] = {}

    def get(self, schema: Schema) -> T:
        """Return what was built of this schema or of an equal one, or build it."""
        found = self._by_identity.get(id(schema))
        if found is not None:
            return found[1]
        made = self._equal(schema)
        if self._size > 0:
            if len(self._by_identity) >= self._size:
                self._by_identity.pop(next(iter(self._by_identity)))
            self._by_identity[id(schema)] = (schema, made)
        return made

    def _equal(self, schema: Schema) -> T:
        try:
            found = self._by_value.get(schema)
        except TypeError:  # a default that has no hash, as a list
            return self._build(schema)
        if found is None:
            found = self._build(schema)
            if self._size > 0:
                if len(self._by_value) >= self._size:
                    self._by_value.pop(next(iter(self._by_value)))
                self._by_value[schema] = found
        return found
