"""The logical types Decimal, Date, Time and Timestamp: their base values, bytes and integers.

The forms are those of org.apache.kafka.connect.data.{Decimal,Date,Time,Timestamp}: a Decimal is its
unscaled value in two's complement, big-endian and as short as can be.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from .data import DATE, DECIMAL, TIME, TIMESTAMP, DataError, Schema

MAX_DIGITS = 4_000
"""Decimals have at most this many digits, so that no value costs time without bound."""

_DAY_MS = 86_400_000
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


class Logical(NamedTuple):
    """Both directions of a logical type. Each raises DataError."""

    encode: Callable[[Schema, Any], Any]
    """From the value to its base value."""
    decode: Callable[[Schema, Any], Any]


def scale_of(schema: Schema) -> int:
    """Return the scale of a Decimal's schema."""
    try:
        return int(schema.parameters["scale"])
    except (KeyError, ValueError):
        raise DataError(
            "Invalid Decimal schema: the parameter scale is missing or no integer"
        ) from None


def rescaled(value: Decimal, scale: int) -> Decimal:
    """Return the same number with `scale` digits after the point; DataError if it has more."""
    return Decimal((value < 0, tuple(map(int, str(abs(_unscaled(value, scale))))), -scale))


def _unscaled(value: Decimal, scale: int) -> int:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise DataError(f"{value} is no finite decimal")
    shift = exponent + scale
    if len(digits) + abs(shift) > MAX_DIGITS:
        raise DataError(f"a decimal of more than {MAX_DIGITS} digits")
    number = int("".join(map(str, digits)))
    power: int = 10 ** abs(shift)
    if shift >= 0:
        number *= power
    else:
        number, rest = divmod(number, power)
        if rest:
            raise DataError(f"Decimal {value} has more than {scale} digits after the point")
    return -number if sign else number


def _encode_decimal(schema: Schema, value: Any) -> bytes:
    if not isinstance(value, Decimal):
        raise wrong_type("Decimal", value)
    number = _unscaled(value, scale_of(schema))
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


def _decode_decimal(schema: Schema, base: bytes) -> Decimal:
    if len(base) * 2 > MAX_DIGITS:
        raise DataError(f"a decimal of more than {MAX_DIGITS} digits")
    return Decimal(f"{int.from_bytes(base, 'big', signed=True)}E{-scale_of(schema)}")


def _encode_date(schema: Schema, value: Any) -> int:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise wrong_type("date", value)
    return value.toordinal() - _EPOCH_DAY


def _decode_date(schema: Schema, base: int) -> date:
    try:
        return date.fromordinal(base + _EPOCH_DAY)
    except (ValueError, OverflowError):
        raise DataError(f"Date {base} is not in the years 1 to 9999") from None


def _encode_time(schema: Schema, value: Any) -> int:
    if not isinstance(value, time):
        raise wrong_type("time", value)
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def _decode_time(schema: Schema, base: int) -> time:
    if not 0 <= base < _DAY_MS:
        raise DataError(f"Time {base} is not between 0 and {_DAY_MS - 1}")
    return (_EPOCH + timedelta(milliseconds=base)).time()


def to_milliseconds(value: datetime) -> int:
    """Return the milliseconds since the epoch, rounded down; a time without zone is in UTC."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the time in UTC. DataError if it is not in the years 1 to 9999."""
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise DataError(f"Timestamp {milliseconds} is not in the years 1 to 9999") from None


def _encode_timestamp(schema: Schema, value: Any) -> int:
    if not isinstance(value, datetime):
        raise wrong_type("datetime", value)
    return to_milliseconds(value)


def _decode_timestamp(schema: Schema, base: int) -> datetime:
    return from_milliseconds(base)


def wrong_type(expected: str, value: Any) -> DataError:
    """Return the error that tells the expected type and the type of `value`, not the value."""
    return DataError(f"{expected} expected, found a value of type {type(value).__name__}")


LOGICAL = {
    DECIMAL: Logical(_encode_decimal, _decode_decimal),
    DATE: Logical(_encode_date, _decode_date),
    TIME: Logical(_encode_time, _decode_time),
    TIMESTAMP: Logical(_encode_timestamp, _decode_timestamp),
}
"""The logical types by the names of their schemas."""
