"""InsertHeader: adds one header to every record (KIP-440)."""

from collections.abc import Mapping

from ..config_def import ConfigDef, ConfigKey, ConfigType
from ..records import Header
from ..values import parse
from .parts import is_empty
from .transformation import R, Transformation


class InsertHeader(Transformation):
    """Adds a header whose type is inferred from its text, beside others of its name."""

    config = ConfigDef(
        [
            ConfigKey("header", ConfigType.STRING, "The name of the header.", check=is_empty),
            ConfigKey("value.literal", ConfigType.STRING, "The value of the header."),
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
