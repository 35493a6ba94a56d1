"""The file of a cluster's key, which its brokers and controllers share (docs/security.md)."""

import os
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Final

NAME: Final = "control.key"
KEY_BYTES: Final = 32
MODE: Final = 0o600


def new_key() -> str:
    """Return the text of a file with a new random key."""
    return f"{b64encode(os.urandom(KEY_BYTES)).decode()}\n"


def make_key(path: Path) -> None:
    """Write a new key that only this user may read; leave a file that exists as it is."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError:
        return
    with open(descriptor, "w") as file:
        file.write(new_key())


def key_text(known: Sequence[Path]) -> str:
    """Return the text of the first of these files, or that of a new one if there is none."""
    return known[0].read_text() if known else new_key()
