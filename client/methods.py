"""Gives methods the name, docstring and parameters of the functions that they call.

With it a class defines each of many such methods in one line.
"""

import functools
import inspect
from collections.abc import Callable
from typing import TypeVar

F = TypeVar("F", bound=Callable[..., object])


def made_like(call: Callable[..., object], method: F) -> F:
    """Give a method the name, docstring and parameters of `call`, with `self` as the first."""
    functools.update_wrapper(method, call)
    # pdoc would document the wrapped function: with `asking`, and as a coroutine in sync clients.
    del method.__wrapped__  # type: ignore[attr-defined]
    signature = inspect.signature(call)
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    _, *others = signature.parameters.values()
    method.__signature__ = signature.replace(parameters=[itself, *others])  # type: ignore[attr-defined]
    return method
