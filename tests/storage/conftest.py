from collections.abc import Iterator

import pytest

from tests.storage.support import TestRuntime


@pytest.fixture
def runtime() -> Iterator[TestRuntime]:
    made = TestRuntime()
    yield made
    made.close()
