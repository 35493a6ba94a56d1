"""Any value of a record as JSON text: decimals as text, times in ISO 8601, bytes in base64."""

import base64
import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any


def to_json(value: Any) -> str:
    """Return the value as JSON on one line. Raise ValueError for one that JSON has no form for."""
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain
    )


def _plain(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    raise ValueError(f"a value of type {type(value).__name__} has no form in JSON")
