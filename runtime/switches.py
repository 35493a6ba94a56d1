"""Reads environment variables: the record codec to use, and lists that settings refer to."""

import os
from typing import Final

RECORDS: Final = os.environ.get("MINIKAFKA_RECORDS", "")
"""The record codec to use, as read at import: `python`, `compiled`, or empty for the best one."""


def listed(variable: str) -> tuple[str, ...]:
    """Return the comma-separated parts of an environment variable, without blanks around them."""
    parts = os.environ.get(variable, "").split(",")
    return tuple(part.strip() for part in parts if part.strip())
