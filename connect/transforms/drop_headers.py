"""DropHeaders: takes headers away by name."""

from collections.abc import Mapping

from ..config_def import ConfigDef
from .parts import a_list
from .transformation import R, Transformation


class DropHeaders(Transformation):
    """Removes every header that has one of the names."""

    config = ConfigDef([a_list("headers", "The names of the headers to remove.")])

    def configure(self, props: Mapping[str, str]) -> None:
        """Take the names."""
        self._names = self.config.parse(props)["headers"]

    def apply(self, record: R) -> R:
        """Return the record without these headers."""
        kept = tuple(header for header in record.headers if header.key not in self._names)
        return record if len(kept) == len(record.headers) else record.with_(headers=kept)
