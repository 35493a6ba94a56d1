"""The next controller to try: the one that another names, else each that is configured in turn.

Pure. The one that has just failed comes last: a silent host costs a whole deadline.
"""

from dataclasses import dataclass

Address = tuple[str, int]


@dataclass(slots=True)
class ControllerAddresses:
    """The addresses of controllers, and what was heard of them."""

    configured: tuple[Address, ...]
    redirect: Address | None = None
    """The address that the last controller named."""
    _tried: Address | None = None
    _place: int = 0

    def next(self) -> Address:
        """Return the next address to try."""
        chosen, self.redirect = self.redirect, None
        if chosen is None:
            chosen = self._turn()
            if chosen == self._tried:
                chosen = self._turn()
        self._tried = chosen
        return chosen

    def _turn(self) -> Address:
        place, self._place = self._place, (self._place + 1) % len(self.configured)
        return self.configured[place]

    def pause_comes_after(self, failure_count: int) -> bool:
        """True if every controller was asked in vain; until then the next one is asked at once."""
        return self.redirect is None and failure_count >= len(self.configured)
