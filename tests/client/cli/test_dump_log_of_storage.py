"""What storage writes, read by dump-log: two readers of Kafka's formats must agree."""

from pathlib import Path

from minikafka.protocol.records.record_batch import (
    BatchBuilder,
    NewRecord,
    build,
    read_header,
    stamp,
)
from minikafka.runtime.config import from_mapping
from minikafka.runtime.runtime import SystemRuntime
from minikafka.storage.log import Log
from minikafka.storage.topic_config import TopicConfig

from .conftest import Run

CONFIG = from_mapping(TopicConfig, {"segment.bytes": "2000", "index.interval.bytes": "100"})


async def write_log(directory: Path) -> None:
    log = await Log.open(SystemRuntime("test"), str(directory), CONFIG, topic_id=bytes(15) + b"\1")
    for number in range(40):
        builder = BatchBuilder()
        for each in range(3):
            builder.append(1000 * number + each, b"key", b"x" * 100)
        batch = builder.build(producer_id=7, producer_epoch=0, base_sequence=3 * number)
        header = read_header(batch)
        stamp(batch, header, log.log_end_offset, number // 20)
        log.append([(header, batch)])
    await log.close()


async def test_every_file_of_a_log_is_sound(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "flights-0"
    await write_log(directory)
    segments = sorted(directory.glob("*.log"))
    assert len(segments) > 3
    code, out, err = run("dump-log", "--files", ",".join(map(str, segments)), "--print-data-log")
    assert (code, err) == (0, "")
    assert out.count("\n| offset: ") == 120
    for suffix in (".index", ".timeindex", ".snapshot"):
        paths = sorted(directory.glob(f"*{suffix}"))
        assert paths, suffix
        code, out, err = run("dump-log", "--files", ",".join(map(str, paths)))
        assert (code, err) == (0, ""), suffix
    code, out, _ = run("dump-log", "--files", directory / "leader-epoch-checkpoint")
    assert out.splitlines()[2:] == [
        "leaderEpoch: 0 startOffset: 0",
        "leaderEpoch: 1 startOffset: 60",
    ]


async def test_the_newest_snapshot_knows_the_last_batch(run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "flights-0"
    await write_log(directory)
    newest = sorted(directory.glob("*.snapshot"))[-1]
    out = run("dump-log", "--files", newest).out
    last = int(newest.stem) - 1
    line = out.splitlines()[1]
    assert line.startswith("producerId: 7 producerEpoch: 0 coordinatorEpoch: -1 ")
    assert " currentTxnFirstOffset: OptionalLong.empty lastTimestamp: " in line
    assert (
        f" firstSequence: {last - 2} lastSequence: {last} lastOffset: {last} offsetDelta: 2 "
    ) in line


def test_kafkas_index_rule_is_what_is_checked(run: Run, tmp_path: Path) -> None:
    """An index entry names the last offset of the batch at its position, not the first."""
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(build([NewRecord(1, None, b"a"), NewRecord(2, None, b"b")]))
    index = segment.with_suffix(".index")
    index.write_bytes(bytes(8))
    code, _, err = run("dump-log", "--files", index)
    assert (code, err.splitlines()[1]) == (1, "  Index offset: 0, log offset: 1")
