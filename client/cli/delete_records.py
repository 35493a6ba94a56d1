"""`minikafka delete-records`: delete the records before the offsets in a JSON file."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...protocol.types import TopicPartition
from ...runtime.errors import ConfigError
from ..errors import AdminError
from .common import FILE, administer, bootstrap_server, command_config, refusal
from .json_files import entries, read_json, topic_partitions

if TYPE_CHECKING:
    from ..admin.admin import Admin

ALL = -1
"""The offset in the file that stands for the high watermark, so that all committed records go."""
COMPLAINT = "Error while executing delete records command"


@click.command("delete-records")
@bootstrap_server
@click.option(
    "--offset-json-file",
    "file",
    required=True,
    type=FILE,
    metavar="FILE",
    help="A JSON file of partitions and offsets; -1 deletes all committed records.",
)
@command_config()
def delete_records(bootstrap: str, file: Path, command_config: Path | None) -> None:
    """Delete all records before the offsets that a file names, for good.

    \b
    echo '{"partitions": [{"topic": "t", "partition": 0, "offset": 100}], "version": 1}' > o.json
    minikafka delete-records --bootstrap-server localhost:9092 --offset-json-file o.json
    """
    offsets = read_offsets(file)

    async def act(admin: "Admin") -> int:
        print("Executing records delete operation")
        errors = {}
        begins: dict[TopicPartition, int] = {}
        for partition, offset in offsets.items():
            try:
                begins |= await admin.delete_records({partition: offset})
            except AdminError as error:
                errors[partition] = next(iter(error.errors.values()))
        print("Records delete operation completed:")
        for partition in offsets:
            outcome = f"low_watermark: {begins.get(partition)}"
            if partition in errors:
                outcome = f"error: {refusal(errors[partition])}"
            print(f"partition: {partition.topic}-{partition.partition}\t{outcome}")
        return 1 if errors else 0

    administer(act, COMPLAINT, bootstrap, command_config)


def read_offsets(file: Path) -> dict[TopicPartition, int]:
    """Read a JSON file of offsets in Kafka's format; raise ConfigError if it is invalid."""
    option = "--offset-json-file"
    found = read_json(file, option)
    offsets: dict[TopicPartition, int] = {}
    rows = zip(topic_partitions(found, option), entries(found, "partitions", option), strict=True)
    for partition, row in rows:
        where = f"{partition.topic}-{partition.partition}"
        offset = row.get("offset")
        if not isinstance(offset, int) or offset < ALL:
            raise ConfigError(option, where, 'needs a number "offset", -1 for all')
        if partition in offsets:
            raise ConfigError(option, where, "the partition is named twice")
        offsets[partition] = offset
    return offsets
