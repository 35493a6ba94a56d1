"""Chooses the next controller to try: the one that a controller named, else one of the settings.

Pure. The address that was just tried is tried again only after another one, if there is one,
because a silent host costs a whole timeout.
"""

from dataclasses import dataclass

Address = tuple[str, int]


@dataclass(slots=True)
class ControllerAddresses:
    """The configured addresses, and the one that the last controller named."""

    configured: tuple[Address, ...]
    redirect: Address | None = None
    """The address that the last controller named; None if it named none."""
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
        """True if every configured controller was tried since the last success: pause now.

        Until then, and if a controller has named another one, the next try follows without a pause.
        """
        return self.redirect is None and failure_count >= len(self.configured)
