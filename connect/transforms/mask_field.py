"""MaskField: a value that says nothing in place of fields, or one of your own (KIP-437)."""

from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from ..config_def import ConfigDef
from ..data import DataError, Schema, SchemaType
from ..values import INTEGERS, to_float32
from .cast import cast
from .parts import REPLACE_NULL, PartTransformation, a_list, a_text, both, is_empty

_NOTHING: dict[Any, Any] = {
    bool: False,
    int: 0,
    float: 0.0,
    Decimal: Decimal(0),
    str: "",
    datetime: datetime(1970, 1, 1, tzinfo=UTC),
    date: date(1970, 1, 1),
    time: time(),
}


class MaskField(PartTransformation):
    """Masks fields: 0, false, an empty text, list or map. A null field stays null."""

    config = ConfigDef(
        [
            a_list("fields", "The fields to mask."),
            a_text("replacement", "The value in place of numbers and texts.", None, check=is_empty),
            REPLACE_NULL,
        ]
    )
    purpose = "mask fields"
    null_passes = False

    def _take(self, settings: Mapping[str, Any]) -> None:
        self._fields, self._replacement = settings["fields"], settings["replacement"]

    def _new_struct(self, schema: Schema, value: Mapping[str, Any], record: Any) -> Any:
        found = {each.name: self.field(value, each) for each in schema.fields}
        for field in schema.fields:
            if field.name in self._fields:
                found[field.name] = self._masked(field.name, found[field.name], field.schema)
        return found

    def _new_map(self, value: Mapping[str, Any], record: Any) -> Any:
        masked = {name: self._masked(name, value.get(name), None) for name in self._fields}
        return {**value, **masked}

    def _masked(self, name: str, value: Any, schema: Schema | None) -> Any:
        if value is None:
            return None
        if self._replacement is not None:
            return self._replaced(name, value, schema)
        for kind, empty in ((list, list), (Mapping, dict)):
            struct = schema is not None and schema.type is SchemaType.STRUCT
            if isinstance(value, kind) and not struct:
                return empty()
        if type(value) not in _NOTHING:
            raise DataError(f"Cannot mask value of type {type(value).__name__}: {name}")
        return _NOTHING[type(value)]

    def _replaced(self, name: str, value: Any, schema: Schema | None) -> Any:
        text, kind = self._replacement, type(value)
        if kind is str:
            return text
        try:
            if kind is Decimal:
                return Decimal(text)
            if kind is int:
                size = schema.type if schema is not None else SchemaType.INT64
                return cast(text, size if size in INTEGERS else SchemaType.INT64)
            if kind is float:
                single = schema is not None and schema.type is SchemaType.FLOAT32
                number: float = cast(text, SchemaType.FLOAT64)
                return to_float32(number) if single else number
        except (DataError, InvalidOperation):
            raise DataError(f"{name}: the replacement is no {kind.__name__}") from None
        raise DataError(f"Cannot mask value of type {kind.__name__} with a replacement: {name}")


MaskFieldKey, MaskFieldValue = both(MaskField)
