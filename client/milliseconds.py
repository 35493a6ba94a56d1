"""Checks timeouts that users give, which are milliseconds here and seconds in other clients.

Pure.
"""


def check_ms(timeout_ms: int | None) -> None:
    """Raise TypeError for a float, because `poll(1.0)` probably means 1 s, not 1 ms."""
    if isinstance(timeout_ms, float):
        raise TypeError(
            f"timeout_ms is an int of milliseconds, not {timeout_ms!r}: a second is timeout_ms=1000"
        )
