"""Runs a Python file of a user, as for the transformation minikafka.Python."""

import sys
from hashlib import sha256
from pathlib import Path
from traceback import format_exception_only
from types import ModuleType
from typing import Any

from .config_def import BadConfig


def no_file(path: str) -> str | None:
    """Return why there is no file at `path`, or None: a check of a ConfigKey."""
    return None if Path(path).is_file() else "there is no such file on this worker"


def load(path: str) -> dict[str, Any]:
    """Run the file and return its names. Raise BadConfig with the line where it fails.

    It runs once for each caller, so that two tasks share nothing. It is in `sys.modules` under a
    name of its own, which dataclasses and pickles look for.
    """
    file = Path(path).resolve()
    name = f"minikafka_user_{file.stem}_{sha256(str(file).encode()).hexdigest()[:8]}"
    module = ModuleType(name)
    module.__file__ = str(file)
    try:
        code = compile(file.read_bytes(), str(file), "exec")
        sys.modules[name] = module
        exec(code, module.__dict__)
    # A file may raise anything, even SystemExit, and must not end the worker.
    except (Exception, SystemExit) as error:
        place = error.__traceback__
        while place is not None and place.tb_frame.f_code.co_filename != str(file):
            place = place.tb_next
        where = f"{path}, line {place.tb_lineno}" if place is not None else path
        raise BadConfig(f"{where}: {format_exception_only(error)[-1].strip()}") from error
    return module.__dict__
