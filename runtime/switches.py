"""Environment variables: which record codec to use, and lists of what settings may name."""

import os
from typing import Final

RECORDS: Final = os.environ.get("MINIKAFKA_RECORDS", "")
"""The record codec to use, as read at import: `python`, `compiled`, or empty for the best one."""


def listed(variable: str) -> tuple[str, ...]:
    """Return the parts of an environment variable between its commas, without blanks around."""
    parts = os.environ.get(variable, "").split(",")
    return tuple(part.strip() for part in parts if part.strip())
