"""Gives methods the name, docstring and parameters of the functions that they call.

A class with many such methods lists each of them in one line.
"""

import functools
import inspect
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def made_like(call: Callable[..., object], method: F) -> F:
    """Give a method the name, docstring and parameters of `call`, but for `self` as the first."""
    functools.update_wrapper(method, call)
    # pdoc and others document what a method wraps: `asking`, and a coroutine even in the sync face.
    del method.__wrapped__  # type: ignore[attr-defined]
    signature = inspect.signature(call)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    _, *others = signature.parameters.values()
    method.__signature__ = signature.replace(parameters=[itself, *others])  # type: ignore[attr-defined]
    return method
