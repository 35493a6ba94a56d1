"""`@pytest.mark.moves("name", ...)`: a test that makes these metrics change by a real cause.

The test fails unless its scrapes read a sample of each with two values, or, where all samples are 1
and labels say the rest, two samples. tests/style/test_moves.py checks that every metric has such a
test.
"""

from collections.abc import Generator, Iterable

import pytest

from .scrape import Readings, readings


def unmoved(names: Iterable[str], found: Readings) -> list[str]:
    """Return the metrics for which all scrapes have read the same value."""
    return [name for name in names if not _has_moved(found.get(name, {}))]


def _has_moved(samples: dict[str, dict[str, None]]) -> bool:
    is_told_by_labels = len(samples) > 1 and all(list(v) == ["1.0"] for v in samples.values())
    return is_told_by_labels or any(len(values) > 1 for values in samples.values())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Record every scrape of a test with the mark, and fail the test if a metric did not change."""
    claims = [name for marker in item.iter_markers("moves") for name in marker.args]
    if not claims:
        return (yield)
    with readings() as found:
        result = yield
    if still := unmoved(claims, found):
        pytest.fail(f"the test says that these move, and all its scrapes agree: {still}")
    return result
