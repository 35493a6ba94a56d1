"""Filter: drops records, together with a predicate."""

from ..records import ConnectRecord
from .transformation import Transformation


class Filter(Transformation):
    """Drops every record that its predicate lets it have."""

    def apply(self, record: ConnectRecord) -> None:
        """Drop the record."""
