"""asyncio's handles without the debug mode, because a run makes hundreds of thousands of them."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any


class SimHandle(asyncio.Handle):
    """A callback that will run once, in its context."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: Any,
        context: contextvars.Context | None,
    ) -> None:
        # asyncio's own asks the loop each time whether it is in debug mode.
        self._context = contextvars.copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = _nothing
        self._args = ()


class SimTimer(SimHandle, asyncio.TimerHandle):
    """A handle that is due at a time."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: Any,
        context: contextvars.Context | None,
    ) -> None:
        SimHandle.__init__(self, callback, args, loop, context)
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)
            SimHandle.cancel(self)


def _nothing() -> None:
    """Replaces the callback of a cancelled handle, so that the callback's memory is freed."""
