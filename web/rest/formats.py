"""Keys, values and headers between JSON and bytes, in the formats binary, json and string.

Pure. binary is base64, json is the bytes of a JSON text, string is UTF-8.
"""

import base64
import binascii
import json
import math
from datetime import UTC, datetime
from typing import Any, Final

from ...client.records import ConsumerRecord
from .errors import SERIALIZATION, RestError
from .media import BINARY, JSON, LATER, NO_REGISTRY, STRING
from .schemas import no_constant

TYPES: Final = {BINARY: "BINARY", JSON: "JSON", STRING: "STRING"}
"""By format, its name in v3."""
MOST_TIMESTAMP: Final = 253_402_300_799_999
"""The last millisecond that an ISO text can name."""


def to_bytes(value: Any, form: str, where: str) -> bytes | None:
    """Return the bytes of a JSON value; None for null. Raise RestError (42207) if it has none."""
    if value is None:
        return None
    if form == JSON:
        try:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            return text.encode()
        except (ValueError, RecursionError) as error:
            raise RestError(SERIALIZATION, f"{where}: cannot be written: {error}") from None
    if not isinstance(value, str):
        raise RestError(SERIALIZATION, f"{where}: must be a string in the format {form}")
    try:
        if form == BINARY:
            return base64.b64decode(value, validate=True)
        return value.encode()
    except binascii.Error as error:
        raise RestError(SERIALIZATION, f"{where}: is not base64: {error}") from None
    except ValueError:
        raise RestError(SERIALIZATION, f"{where}: is no text in Unicode") from None


def to_json(data: bytes | None, form: str) -> Any:
    """Return bytes as a JSON value; raise ValueError if they do not have the format."""
    if data is None:
        return None
    if form == BINARY:
        return base64.b64encode(data).decode()
    if form == STRING:
        return data.decode()
    try:
        return json.loads(data, parse_constant=no_constant, parse_float=_finite)
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:80]} is too large a number")
    return number


def form_of(v3_type: str | None, where: str) -> str:
    """Return the format of a v3 `type`; binary if there is none. Raise RestError if unknown."""
    if v3_type is None:
        return BINARY
    lower = v3_type.lower()
    if lower in LATER:
        raise RestError(SERIALIZATION, f"{where}.type: {lower} {NO_REGISTRY}")
    if lower not in TYPES:
        why = f"must be one of {', '.join(TYPES.values())}, not {v3_type[:80]!r}"
        raise RestError(SERIALIZATION, f"{where}.type: {why}")
    return lower


def typed(data: bytes | None, form: str) -> dict[str, Any] | None:
    """Return bytes as v3 writes them, with their type; BINARY if they do not have the format."""
    if data is None:
        return None
    try:
        return {"type": TYPES[form], "data": to_json(data, form)}
    except ValueError:
        return {"type": TYPES[BINARY], "data": to_json(data, BINARY)}


def v2_record(record: ConsumerRecord[bytes, bytes], form: str) -> dict[str, Any]:
    """Return a record as v2 answers it; raise ValueError if it does not have the format."""
    return {
        "topic": record.topic,
        "key": to_json(record.key, form),
        "value": to_json(record.value, form),
        "partition": record.partition,
        "offset": record.offset,
    }


def v3_record(record: ConsumerRecord[bytes, bytes], form: str) -> dict[str, Any]:
    """Return a record as a stream shows it; it has the shape in which v3 takes records."""
    return {
        "partition_id": record.partition,
        "offset": record.offset,
        "timestamp": iso_of(record.timestamp_ms),
        "headers": [
            {"name": name, "value": to_json(data, BINARY)} for name, data in record.headers
        ],
        "key": typed(record.key, form),
        "value": typed(record.value, form),
    }


def iso_of(timestamp_ms: int) -> str | None:
    """Return a time as ISO 8601 in UTC with milliseconds; None if it is unknown or too late."""
    if not 0 <= timestamp_ms <= MOST_TIMESTAMP:
        return None
    text = datetime.fromtimestamp(timestamp_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{timestamp_ms % 1000:03d}Z"


def ms_of(text: str, where: str) -> int:
    """Return an ISO 8601 time as milliseconds; without a zone it is UTC. Raise RestError."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    if when is not None:
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        seconds = when.replace(microsecond=0).timestamp()
        if seconds >= 0:
            return int(seconds) * 1000 + when.microsecond // 1000
    raise RestError(SERIALIZATION, f"{where}: must be a time such as 2026-01-31T08:00:00Z")
