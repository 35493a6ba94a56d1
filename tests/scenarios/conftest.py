"""The machine's files, where nothing waits for the disk."""

from collections.abc import Iterator

import pytest

from ..storage.faults import FaultyFs
from ..storage.support import TestRuntime


@pytest.fixture
def runtime() -> Iterator[TestRuntime]:
    """The machine's files, except that nothing waits for the disk."""
    made = TestRuntime(FaultyFs())
    yield made
    made.close()
