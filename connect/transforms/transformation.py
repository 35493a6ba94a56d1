"""The base classes of transformations and predicates (KIP-66, KIP-585).

A transformation is given one record after the other, changes none, and returns a changed copy. Each
task has its own.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from ..config_def import ConfigDef
from ..records import ConnectRecord

R = TypeVar("R", bound=ConnectRecord)


class Transformation:
    """Changes a record, or drops it. Whatever it raises is a failure of the record."""

    config: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the settings behind `transforms.NAME.`; raise BadConfig if one is wrong."""
        self.config.parse(props)

    def apply(self, record: R) -> R | list[R] | None:
        """Return the record to go on with, several of them, or None to drop it."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what `configure` took."""


class Predicate:
    """Says which records a transformation is for."""

    config: ClassVar[ConfigDef] = ConfigDef()

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the settings behind `predicates.NAME.`; raise BadConfig if one is wrong."""
        self.config.parse(props)

    def test(self, record: Any) -> bool:
        """Return True for the records that it names."""
        raise NotImplementedError
