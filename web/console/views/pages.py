"""A long list in pages, narrowed by a search. Pure."""

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
    """From 1 on."""
    count: int
    """Pages there are, one at the least."""
    total: int
    """Rows in all pages."""
    query: str

    @property
    def first(self) -> int:
        """The number of the first row; 0 where there is none."""
        return (self.number - 1) * ROWS + 1 if self.rows else 0

    @property
    def last(self) -> int:
        """The number of the last row."""
        return (self.number - 1) * ROWS + len(self.rows)


def page_of(every: Sequence[T], query: str, number: int, text: Callable[[T], str] = str) -> Page[T]:
    """Cut the page with this number out of what has the query in its text, in either case.

    A page that is not there gives the nearest one.
    """
    wanted = query.strip().lower()[:MOST_LETTERS]
    found = [one for one in every if wanted in text(one).lower()] if wanted else list(every)
    count = max(1, -(-len(found) // ROWS))
    number = min(max(number, 1), count)
    rows = tuple(found[(number - 1) * ROWS : number * ROWS])
    return Page(rows, number, count, len(found), query.strip()[:MOST_LETTERS])
