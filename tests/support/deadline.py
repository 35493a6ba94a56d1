"""A test that failed still has a deadline: for its teardown, and for a second run.

pytest-timeout takes the deadline away at the first failure, because a debugger may begin there.
What follows then may wait for a process or a page for ever, and the whole run with it.
"""

from typing import Any

import pytest

SETTINGS = pytest.StashKey[object]()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> None:
    """Keep what pytest-timeout goes by; the timer itself is left to it."""
    item.stash[SETTINGS] = settings


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: Any) -> None:
    """Set the timer again, from its beginning."""
    if isinstance(node, pytest.Item) and SETTINGS in node.stash:
        node.ihook.pytest_timeout_set_timer(item=node, settings=node.stash[SETTINGS])
