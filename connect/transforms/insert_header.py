"""InsertHeader: adds one header to every record (KIP-440)."""

from collections.abc import Mapping

from ..config_def import ConfigDef
from ..records import Header
from ..values import parse
from .parts import a_text, is_empty
from .transformation import R, Transformation


class InsertHeader(Transformation):
    """Adds a header whose type is inferred from its text, beside others of its name."""

    config = ConfigDef(
        [
            a_text("header", "The name of the header.", check=is_empty),
            a_text("value.literal", "The value of the header."),
        ]
    )

    def configure(self, props: Mapping[str, str]) -> None:
        """Take name and value."""
        settings = self.config.parse(props)
        schema, value = parse(settings["value.literal"])
        self._header = Header(settings["header"], value, schema)

    def apply(self, record: R) -> R:
        """Return the record with the header behind those that it has."""
        return record.with_(headers=(*record.headers, self._header))
