"""Reads the small files that settings name: keys, certificates, and lists of them."""

from typing import Final

from ..runtime.errors import ConfigError
from ..runtime.fs import FileSystem

READ: Final = 0o004
WRITE: Final = 0o002
"""The permission bits by which everybody may read a file, or write it."""
_MAY: Final = {READ: "read", WRITE: "write", READ | WRITE: "read or write"}


def read_small(fs: FileSystem, key: str, path: str, *, bytes_max: int, forbidden: int) -> bytes:
    """Return the content of the file that the setting `key` names; the event loop waits for it.

    Raise ConfigError, which names both, if it cannot be read, if it has `bytes_max` bytes or more,
    or if everybody may do what is `forbidden`: READ, WRITE or both.
    """
    try:
        mode = fs.permissions(path)
        if mode & forbidden:
            hint = "600" if forbidden & READ else "o-w"
            why = f"everybody may {_MAY[forbidden]} it (mode {mode:04o}): chmod {hint} {path}"
            raise ConfigError(key, path, why)
        file = fs.open(path)
        try:
            content = bytearray(bytes_max)
            size = file.preadv_wait(content, 0)
        finally:
            file.close()
    except OSError as error:
        raise ConfigError(key, path, error.strerror or str(error)) from None
    except ValueError as error:
        raise ConfigError(key, None, f"is no path: {error}") from None
    if size == bytes_max:
        raise ConfigError(key, path, f"has {bytes_max} bytes or more")
    return bytes(content[:size])
