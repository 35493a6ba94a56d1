"""Cuts a long list into pages, after a search. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

T = TypeVar("T")
ROWS: Final = 50
MOST_LETTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list."""

    rows: tuple[T, ...]
    number: int
    """The number of the page, from 1 on."""
    count: int
    """The number of pages, at least one."""
    total: int
    """The number of rows in all pages."""
    query: str

    @property
    def first(self) -> int:
        """The number of the page's first row; 0 if there is no row."""
        return (self.number - 1) * ROWS + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the page's last row."""
        return (self.number - 1) * ROWS + len(self.rows)


def page_of(every: Sequence[T], query: str, number: int, text: Callable[[T], str] = str) -> Page[T]:
    """Return one page of the items whose text contains the query; case does not matter.

    A number out of range gives the nearest page.
    """
    wanted = query.strip().lower()[:MOST_LETTERS]
    found = [one for one in every if wanted in text(one).lower()] if wanted else list(every)
    count = max(1, -(-len(found) // ROWS))
    number = min(max(number, 1), count)
    rows = tuple(found[(number - 1) * ROWS : number * ROWS])
    return Page(rows, number, count, len(found), query.strip()[:MOST_LETTERS])
