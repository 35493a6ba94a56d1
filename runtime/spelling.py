"""Suggests the nearest known names for a misspelt one: of settings, commands and topics.

Pure.
"""

from collections.abc import Iterable
from itertools import islice

CUTOFF = 0.6
"""The least similarity of a suggested name, from 0 to 1, by difflib's ratio."""
MOST_COMPARED = 10_000
"""The most names that are compared: each takes about 10 us, on the caller's event loop."""


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Return the end of a sentence with up to `most` near names; empty if none is near."""
    import difflib  # only needed once something is misspelt

    compared = list(dict.fromkeys(islice(known, MOST_COMPARED)))
    nearest = difflib.get_close_matches(name, compared, n=most, cutoff=CUTOFF)
    return f"; did you mean {' or '.join(nearest)}?" if nearest else ""
