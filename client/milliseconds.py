"""Times that users give in milliseconds, where other clients take seconds.

Pure.
"""


def check_ms(timeout_ms: int | None) -> None:
    """Raise TypeError for a float: `poll(1.0)` is meant as a second and would wait 1 ms."""
    if isinstance(timeout_ms, float):
        raise TypeError(
            f"timeout_ms is an int of milliseconds, not {timeout_ms!r}: a second is timeout_ms=1000"
        )
