"""The identity of a data directory: meta.properties is read and checked, or made if missing.

A directory without a readable identity gets a new one, as a disk that was emptied does. Its
checkpoints and the marker of a clean shutdown are removed, so that only the logs are trusted. The
topic ids of the logs show whether they belong to the cluster.
"""

import logging
from contextlib import suppress

from ..protocol.types import uuid_to_text
from ..runtime.errors import ConfigError
from ..runtime.runtime import Runtime
from .checkpoints import MetaProperties, OtherVersion
from .files import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    Files,
)

log = logging.getLogger(__name__)


async def identify(runtime: Runtime, files: Files, path: str, node_id: int) -> MetaProperties:
    """Read the identity of a locked directory; make a new one if it cannot be read.

    Raises ConfigError if meta.properties has another version, because the directory's format is
    unknown then.
    """
    file = f"{path}/{META_PROPERTIES}"
    data = files.read_small(file)
    if data is not None:
        try:
            return MetaProperties.decode(data)
        except OtherVersion as error:
            why = (
                f"{META_PROPERTIES} is of version {error}, this release reads version 1: start the"
            )
            raise ConfigError("log.dirs", path, f"{why} release that wrote it") from None
        except ValueError as error:
            mark = uuid_to_text(runtime.rng.randbytes(16)).replace("-", "_")
            log.error("%s: %s: kept as .%s, the directory gets a new identity", file, error, mark)
            files.rename(file, f"{file}.{mark}")
    for name in (CLEAN_SHUTDOWN, RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS):
        files.remove(f"{path}/{name}")
    await files.fsync_directory(path)
    meta = MetaProperties(runtime.rng.randbytes(16), node_id, None)
    await files.replace_durably(file, meta.encode())
    await _stabilise(runtime, path)
    return meta


async def belong(
    files: Files, path: str, meta: MetaProperties, cluster_id: str, key: str
) -> MetaProperties:
    """Record in meta.properties that the directory belongs to a cluster; return the new contents.

    Raise ConfigError, which names `key`, if the directory belongs to another cluster.
    """
    if meta.cluster_id is not None:
        if meta.cluster_id != cluster_id:
            why = f"belongs to cluster.id={meta.cluster_id}, not {cluster_id}"
            raise ConfigError(key, path, why)
        return meta
    joined = MetaProperties(meta.directory_id, meta.node_id, cluster_id)
    await files.replace_durably(f"{path}/{META_PROPERTIES}", joined.encode())
    return joined


async def _stabilise(runtime: Runtime, path: str) -> None:
    """Sync all parent directories, so that a new directory survives a loss of power."""
    parent = path
    while parent := parent.rpartition("/")[0]:
        # A directory that we may not read was not made by us.
        with suppress(PermissionError):
            await runtime.fs.fsync_dir(parent)
    if path.startswith("/"):
        with suppress(PermissionError):
            await runtime.fs.fsync_dir("/")
