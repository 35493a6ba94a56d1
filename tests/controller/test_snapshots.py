"""Files of snapshots: when they count as written."""

from pathlib import Path

from minikafka.controller.quorum.snapshots import Snapshots
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.records import ClusterRecord
from minikafka.storage.files import Files

from ..storage.faults import FaultyFs


async def test_a_snapshot_is_on_stable_storage_before_it_has_its_name_and_its_name_on_return(
    tmp_path: Path,
) -> None:
    """The log below it is deleted: a snapshot that power takes away takes the metadata along."""
    fs = FaultyFs()
    directory = str(tmp_path)
    snapshots = Snapshots(Files(fs, directory), directory)
    image = MetadataImage()
    image.apply(ClusterRecord("cluster"), 0)
    snapshot = await snapshots.write(image, 1)
    (path,) = (f"{directory}/{name}" for name in fs.listdir(directory))
    written = max(at for at, call in enumerate(fs.calls) if call[0] == "write")
    named = fs.calls.index(("rename", path))
    between = fs.calls[written + 1 : named]
    assert ("fdatasync", fs.calls[written][1]) in between, "it has its name before it is synced"
    assert fs.calls[named + 1 :] == [("fsync_dir", directory)], "its name is not synced on return"
    assert fs.synced[path] > 0
    assert snapshots.newest == snapshot
