"""StringConverter: texts, and of other values the text that they have in Java."""

from collections.abc import Mapping
from typing import Any

from ..config_def import ConfigDef, ConfigKey, ConfigType, Importance
from ..data import STRING, DataError, Schema, SchemaType
from ..values import text_of
from .converter import Converter, SchemaAndValue

_OPTIONAL_STRING = STRING.as_optional()


def _is_no_encoding(name: str) -> str | None:
    try:
        "".encode(name)
    except (LookupError, UnicodeError):
        return "is no character encoding; use UTF-8, ISO-8859-1 or another that Python knows"
    return None


class StringConverter(Converter):
    """Writes any value as a text and reads texts (org.apache.kafka.connect.storage).

    Bytes that are no text of the encoding are a DataError; Java puts another character in their
    place, which loses them.
    """

    config = ConfigDef(
        [
            ConfigKey(
                "converter.encoding",
                ConfigType.STRING,
                "The character encoding of texts.",
                "UTF-8",
                importance=Importance.HIGH,
                check=_is_no_encoding,
            )
        ]
    )
    encoding = "UTF-8"

    def configure(self, props: Mapping[str, str], is_key: bool = False) -> None:
        """Take the encoding."""
        self.encoding = self.config.parse(props)["converter.encoding"]

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of `value`: a map is {a=1, b=2}, a struct is Struct{a=1,b=2}."""
        if value is None:
            return None
        try:
            return (value if type(value) is str else _java_text(value, schema)).encode(
                self.encoding
            )
        except UnicodeEncodeError as error:
            raise DataError(f"the text cannot be written in {self.encoding}: {error}") from None

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the text of the bytes."""
        if data is None:
            return _OPTIONAL_STRING, None
        try:
            return _OPTIONAL_STRING, data.decode(self.encoding)
        except UnicodeDecodeError as error:
            raise DataError(
                f"the bytes are no text in {self.encoding} ({error.reason} at byte {error.start});"
                " ByteArrayConverter takes any bytes"
            ) from None


def _java_text(value: Any, schema: Schema | None) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        raise DataError("StringConverter writes no bytes; use ByteArrayConverter")
    items = schema.value_schema if schema is not None else None
    if isinstance(value, list | tuple):
        return f"[{', '.join(_java_text(each, items) for each in value)}]"
    if not isinstance(value, Mapping):
        return text_of(value, schema)
    if schema is not None and schema.type is SchemaType.STRUCT:
        found = [(each, value.get(each.name)) for each in schema.fields]
        texts = [
            f"{field.name}={_java_text(v, field.schema)}" for field, v in found if v is not None
        ]
        return f"Struct{{{','.join(texts)}}}"
    pairs = (f"{_java_text(k, None)}={_java_text(v, items)}" for k, v in value.items())
    return f"{{{', '.join(pairs)}}}"
