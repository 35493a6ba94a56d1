"""A runtime with the machine's file system, in which syncs do not wait for the disk."""

from collections.abc import Iterator

import pytest

from ..storage.faults import FaultyFs
from ..storage.support import TestRuntime


@pytest.fixture
def runtime() -> Iterator[TestRuntime]:
    """Return a runtime with the machine's file system, in which syncs do not wait for the disk."""
    made = TestRuntime(FaultyFs())
    yield made
    made.close()
