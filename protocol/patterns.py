"""Regular expressions that users give: compiled by RE2, as in Kafka.

RE2 matches in time that is linear in the length of the text. Python's `re` takes exponential time
for some patterns, which would block an event loop.
"""

from typing import Any


def compiled(pattern: str) -> Any:
    """Compile the pattern for `fullmatch` and `search`; raise ValueError if it is malformed."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        (why,) = error.args
        raise ValueError(why.decode() if isinstance(why, bytes) else str(why)) from None
