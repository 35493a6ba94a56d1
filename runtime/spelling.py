"""Near names for a misspelt one: of settings, commands and topics.

Pure.
"""

from collections.abc import Iterable
from itertools import islice

CUTOFF = 0.6
"""The likeness that two names must have, from 0 to 1: difflib's ratio."""
MOST_COMPARED = 10_000
"""Names compared at most: each takes about 10 us, on the caller's event loop."""


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Name up to `most` of the nearest names, as the end of a sentence; empty if none is near."""
    import difflib  # only needed once something is misspelt

    compared = list(dict.fromkeys(islice(known, MOST_COMPARED)))
    nearest = difflib.get_close_matches(name, compared, n=most, cutoff=CUTOFF)
    return f"; did you mean {' or '.join(nearest)}?" if nearest else ""
