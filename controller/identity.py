"""Whose data directory this is: its lock, and the ids in its `meta.properties`.

There is no format step: an empty directory gets the configured cluster id or a random one. A
directory of another node or cluster is refused before anything in it is touched.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..protocol.types import uuid_from_text, uuid_to_text
from ..runtime.config import parse_properties
from ..runtime.errors import ConfigError, StorageError
from ..runtime.fs import Lock, LockHeld
from ..storage.files import LOCK, META_PROPERTIES, Files

if TYPE_CHECKING:
    from ..runtime.runtime import Runtime
    from .config import ControllerConfig


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids of a locked data directory."""

    cluster_id: str
    directory_id: bytes
    lock: Lock

    def release(self) -> None:
        """Let another process have the directory."""
        self.lock.release()


async def take_identity(runtime: "Runtime", config: "ControllerConfig") -> Identity:
    """Lock the directory and read or give its ids; ConfigError when it is not ours to use."""
    directory = config.directory
    try:
        runtime.fs.mkdir(directory)
        lock = runtime.fs.lock(f"{directory}/{LOCK}")
    except LockHeld as error:
        raise ConfigError("log.dirs", directory, "another process uses it") from error
    except OSError as error:
        why = f"cannot be used: {error.strerror or error}"
        raise ConfigError("log.dirs", directory, why) from error
    try:
        cluster_id, directory_id = await _ids(runtime, config)
    except BaseException:
        lock.release()
        raise
    return Identity(cluster_id, directory_id, lock)


async def _ids(runtime: "Runtime", config: "ControllerConfig") -> tuple[str, bytes]:
    directory, files = config.directory, Files(runtime.fs, config.directory)
    path = f"{directory}/{META_PROPERTIES}"
    data = files.read_small(path)
    if data is not None:
        return _read(config, path, data)
    cluster_id = config.cluster_id or uuid_to_text(runtime.rng.randbytes(16))
    directory_id = runtime.rng.randbytes(16)
    text = f"version=1\ncluster.id={cluster_id}\nnode.id={config.node_id}\n"
    text = f"{text}directory.id={uuid_to_text(directory_id)}\n"
    await files.replace_durably(path, text.encode())
    return cluster_id, directory_id


def _read(config: "ControllerConfig", path: str, data: bytes) -> tuple[str, bytes]:
    directory = config.directory
    try:
        found = parse_properties(data.decode())
        cluster_id, node_id = found["cluster.id"], int(found["node.id"])
        directory_id = uuid_from_text(found["directory.id"])
    except (ValueError, KeyError) as error:
        raise StorageError(f"{path} cannot be read: {error!r}") from error
    if node_id != config.node_id:
        why = f"belongs to node.id={node_id}, this is node.id={config.node_id}"
        raise ConfigError("log.dirs", directory, why)
    if config.cluster_id not in (None, cluster_id):
        why = f"belongs to cluster.id={cluster_id}, not {config.cluster_id}"
        raise ConfigError("log.dirs", directory, why)
    return cluster_id, directory_id
