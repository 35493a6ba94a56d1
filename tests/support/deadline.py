"""Keeps a deadline for a test that has failed: for its teardown and its second run.

pytest-timeout takes the deadline away at the first failure, because a debugger may begin there.
What follows may then wait for a process or a page for ever, and block the whole run.
"""

from typing import Any

import pytest

SETTINGS = pytest.StashKey[object]()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: object) -> None:
    """Remember pytest-timeout's settings of the test; pytest-timeout sets the timer itself."""
    item.stash[SETTINGS] = settings


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: Any) -> None:
    """Set the timer again, from its beginning."""
    if isinstance(node, pytest.Item) and SETTINGS in node.stash:
        node.ihook.pytest_timeout_set_timer(item=node, settings=node.stash[SETTINGS])
