"""The version of minikafka, in one place.

pyproject.toml takes the package's version from this module, `minikafka.__version__` and every
`--version` show it, and our clients send it to brokers (KIP-511).
"""

from typing import Final

VERSION: Final = "0.2.0"
