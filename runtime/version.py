"""The version of minikafka, in one place.

pyproject.toml takes it from here for the package, `minikafka.__version__` and every `--version`
tell it, and our clients name it to brokers (KIP-511).
"""

from typing import Final

VERSION: Final = "0.2.0"
