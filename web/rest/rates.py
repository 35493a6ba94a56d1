"""A rate with a burst of one second. Pure."""


class Rate:
    """So many in a second: what was saved in the last second may be spent at once."""

    def __init__(self, per_second: int) -> None:
        """0 means without a bound."""
        self._per_second = per_second
        self._left = float(per_second)
        self._at_ms = 0

    def take(self, count: int, now_ms: int) -> int:
        """Spend `count`, and return 0; if nothing is left, return the ms until there is.

        A request may spend more than is left; later ones wait until that is made up.
        """
        if not self._per_second:
            return 0
        grown = (now_ms - self._at_ms) * self._per_second / 1000
        self._left, self._at_ms = min(self._left + grown, self._per_second), now_ms
        if self._left < 1:
            return int((1 - self._left) * 1000 / self._per_second) + 1
        self._left -= count
        return 0
