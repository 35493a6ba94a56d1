"""The test of the tests: a product that is wrong in one place does not get through."""

import pytest

from .planted import PLANTED, first_caught

SEEDS = range(25)


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(name: str) -> None:
    assert first_caught(name, SEEDS) is not None
