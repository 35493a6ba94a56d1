"""Environment variables that are read at import: which record codec to use."""

import os
from typing import Final

RECORDS: Final = os.environ.get("MINIKAFKA_RECORDS", "")
"""The record codec to use: `python`, `compiled`, or empty for the best one available."""
