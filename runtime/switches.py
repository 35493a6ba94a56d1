"""Switches in the environment that are needed before there is a configuration: at import."""

import os
from typing import Final

RECORDS: Final = os.environ.get("MINIKAFKA_RECORDS", "")
"""Which record codec to use: `python`, `compiled`, or empty for the best there is."""
