"""An object store or a file system, by fsspec: files appear whole and once, or not at all.

A file is created only if there is none of its name: so of two tasks that write the same one, one
wins, and the other finds out. The stores of ATOMIC_PUT refuse the second by themselves. Elsewhere a
file is written under a temporary name that begins with a point, and then renamed or linked.
"""

import os
from collections.abc import Mapping
from typing import Any

import fsspec

from ..config_def import INT64_MAX, ConfigDef
from .keys import text, whole

OPTION = "store.option."
_CREATE, _CREATE_ON_AZURE = {"mode": "create"}, {"overwrite": False}
ATOMIC_PUT: Mapping[str, Mapping[str, Any]] = {
    **dict.fromkeys(("memory", "s3", "s3a", "gs", "gcs"), _CREATE),
    **dict.fromkeys(("abfs", "abfss", "az"), _CREATE_ON_AZURE),
}
"""Protocols whose objects are visible when their PUT is complete, and how it is to replace none."""
LOCAL = ("file", "local")

STORE = ConfigDef(
    [
        text(
            "store.url",
            "The folder, as fsspec writes it: `s3://bucket/prefix`, `gs://bucket`, `abfs://container`"
            ", `file:///var/data`. Its package (s3fs, gcsfs, adlfs) must be installed. Settings of "
            "the store are keys `store.option.NAME`, as store.option.endpoint_url.",
        ),
        whole(
            "max.retries", "How often in a row something is tried again while the store fails.", 10
        ),
        whole("retry.backoff.ms", "The wait before that.", 5000, 0, INT64_MAX),
    ]
)


class ObjectStore:
    """The files below one folder; paths are relative to it."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self.fs, root = fsspec.url_to_fs(url, **options)
        self._root = root.rstrip("/")
        protocol = self.fs.protocol
        self._protocols = (protocol,) if isinstance(protocol, str) else tuple(protocol)

    @classmethod
    def of(cls, props: Mapping[str, str]) -> "ObjectStore":
        """Return the store that a configuration names."""
        options = {
            name.removeprefix(OPTION): value
            for name, value in props.items()
            if name.startswith(OPTION)
        }
        return cls(props["store.url"].strip(), options)

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder as they are now; none if it is not there."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self.path(folder), detail=True)
        except FileNotFoundError:
            return []
        return [
            each["name"].rstrip("/").rpartition("/")[2] for each in found if each["type"] == "file"
        ]

    def files(self) -> dict[str, None]:
        """Return the paths of the visible files below the folder, sorted."""
        self.fs.invalidate_cache()
        cut = len(self._root) + 1
        paths = [path[cut:] for path in sorted(self.fs.find(self._root))]
        return {
            path: None for path in paths if not any(part[:1] in "._" for part in path.split("/"))
        }

    def path(self, name: str) -> str:
        """Return the whole path of a file."""
        return f"{self._root}/{name}"

    def create(self, name: str, data: bytes) -> bool:
        """Make a file visible with this content; return False if there is one of its name.

        Whatever fsspec raises means that the file is not there, or was not when it was looked for.
        """
        path = self.path(name)
        try:
            atomic = [ATOMIC_PUT[each] for each in self._protocols if each in ATOMIC_PUT]
            if atomic:
                self.fs.pipe_file(path, data, **atomic[0])
            elif any(each in LOCAL for each in self._protocols):
                _link(path, data)
            else:
                return self._renamed(path, data)
        except Exception:
            self.fs.invalidate_cache()
            if self.fs.exists(path):  # another's, or ours whose answer was lost
                return False
            raise
        return True

    def _renamed(self, path: str, data: bytes) -> bool:
        folder = path.rpartition("/")[0]
        self.fs.makedirs(folder, exist_ok=True)
        if self.fs.exists(path):
            return False
        temporary = _temporary(path)
        self.fs.pipe_file(temporary, data)
        self.fs.mv(temporary, path)
        return True


def _temporary(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{os.urandom(4).hex()}.tmp"


def _link(path: str, data: bytes) -> None:
    """Write a durable file, and give it its name if that is free: FileExistsError."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    temporary = _temporary(path)
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
