"""JsonConverter: JSON, with an envelope of schema and payload or without.

The bytes are those of org.apache.kafka.connect.json.JsonConverter. Records of one schema carry the
same bytes before their payload: those are remembered, and the schema is parsed once.
"""

from collections.abc import Mapping
from decimal import Decimal
from json import JSONDecoder
from typing import Any, NamedTuple

from ..config_def import ConfigDef, ConfigKey, ConfigType, Importance
from ..data import DataError, Schema
from ..schema_cache import SchemaCache
from .converter import Converter, SchemaAndValue
from .json_schema import schema_of, schema_text
from .json_values import JsonOptions, Reader, Writer, plain_text, reader, writer

_SCHEMA, _PAYLOAD = '{"schema":', ',"payload":'


def _no_constant(name: str) -> Any:
    raise DataError(f"{name} is not JSON")


_PLAIN = JSONDecoder(parse_constant=_no_constant)
_EXACT = JSONDecoder(parse_constant=_no_constant, parse_float=Decimal)


class _Compiled(NamedTuple):
    schema: Schema
    text: str
    write: Writer
    read: Reader


def _decimal_format(value: str) -> str | None:
    return None if value.upper() in ("BASE64", "NUMERIC") else "must be BASE64 or NUMERIC"


class JsonConverter(Converter):
    """Writes and reads JSON in UTF-8."""

    config = ConfigDef(
        [
            ConfigKey(
                "schemas.enable",
                ConfigType.BOOLEAN,
                "Write and expect the schema beside each value.",
                True,
                importance=Importance.HIGH,
                group="Schemas",
            ),
            ConfigKey(
                "schemas.cache.size",
                ConfigType.INT,
                "How many schemas are kept ready.",
                1000,
                importance=Importance.HIGH,
                at_least=0,
                group="Schemas",
            ),
            ConfigKey(
                "decimal.format",
                ConfigType.STRING,
                "How decimals with a schema are written: BASE64, or NUMERIC as JSON numbers.",
                "BASE64",
                importance=Importance.LOW,
                check=_decimal_format,
                group="Serialization",
            ),
            ConfigKey(
                "replace.null.with.default",
                ConfigType.BOOLEAN,
                "Put the schema's default in place of a null.",
                True,
                importance=Importance.LOW,
                group="Serialization",
            ),
        ]
    )

    def __init__(self) -> None:
        self.configure({})

    def configure(self, props: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings."""
        settings = self.config.parse(props)
        self.envelope: bool = settings["schemas.enable"]
        self._options = JsonOptions(
            settings["decimal.format"].upper() == "NUMERIC", settings["replace.null.with.default"]
        )
        self._compiled = SchemaCache(settings["schemas.cache.size"], self._compile)
        self._prefix = "\0"
        """The bytes up to the payload of the last record, which no JSON begins with at first."""
        self._behind: _Compiled | None = None

    def _compile(self, schema: Schema) -> _Compiled:
        options = self._options
        text = f"{_SCHEMA}{schema_text(schema, options)}{_PAYLOAD}"
        return _Compiled(schema, text, writer(schema, options), reader(schema, options))

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the JSON of a value; None without schema is a tombstone."""
        if schema is None and value is None:
            return None
        try:
            return self._text(schema, value).encode()
        except UnicodeEncodeError:
            raise DataError("a text with half a surrogate pair has no UTF-8") from None
        except RecursionError:
            raise DataError("the value is nested too deep") from None

    def _text(self, schema: Schema | None, value: Any) -> str:
        if schema is None:
            text = plain_text(value)
            return f"{_SCHEMA}null{_PAYLOAD}{text}}}" if self.envelope else text
        compiled = self._compiled.get(schema)
        text = compiled.write(value)
        return f"{compiled.text}{text}}}" if self.envelope else text

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the schema of the envelope, if any, and the value. None is a tombstone."""
        if data is None:
            return None, None
        try:
            text = data.decode()
            if not self.envelope:
                return None, _PLAIN.decode(text)
            if self._behind is not None and text.startswith(self._prefix) and text[-1] == "}":
                return self._known(self._behind, text)
            return self._unwrapped(text)
        except UnicodeDecodeError as error:
            raise DataError(f"the bytes are no UTF-8, at byte {error.start}") from None
        except RecursionError:
            raise DataError("the JSON is nested too deep") from None
        except ValueError as error:  # JSONDecodeError among them
            raise DataError(f"the bytes are no JSON: {error}") from None

    def _known(self, compiled: _Compiled, text: str) -> SchemaAndValue:
        try:
            payload = _EXACT.decode(text[len(self._prefix) : -1])
        except ValueError:
            return self._unwrapped(text)  # for an error that counts from the start
        return compiled.schema, compiled.read(payload)

    def _unwrapped(self, text: str) -> SchemaAndValue:
        envelope = _EXACT.decode(text)
        if not isinstance(envelope, dict) or envelope.keys() != {"schema", "payload"}:
            raise DataError(
                'JsonConverter with schemas.enable=true needs an object of "schema" and "payload"'
                " alone; for plain JSON set schemas.enable=false in the converter's configuration"
            )
        schema = schema_of(envelope["schema"], self._options)
        if schema is None:
            return None, reader(None, self._options)(envelope["payload"])
        compiled = self._compiled.get(schema)
        if text.startswith(_SCHEMA):
            end = _EXACT.raw_decode(text, len(_SCHEMA))[1]
            if text.startswith(_PAYLOAD, end):
                self._prefix, self._behind = text[: end + len(_PAYLOAD)], compiled
        return compiled.schema, compiled.read(envelope["payload"])
