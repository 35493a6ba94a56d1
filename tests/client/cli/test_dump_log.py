"""Golden outputs: the texts are Kafka's DumpLogSegments'."""

import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from minikafka.protocol.control.records import (
    ClusterRecord,
    ScramCredentialRecord,
    ScramSecretRecord,
    encode_record,
)
from minikafka.protocol.records.record_batch import (
    BatchBuilder,
    Codec,
    NewRecord,
    build,
    read_header,
)
from minikafka.protocol.types import TopicPartition
from minikafka.storage.checkpoints import encode_offsets

from .conftest import Run

LOG = "00000000000000000005.log"


def crc(batch: bytes | bytearray) -> int:
    return int(read_header(batch).crc)


def plain(base_offset: int = 5) -> bytearray:
    records = [
        NewRecord(1000, b"k", "grün".encode(), (("h1", b"v"), ("h2", None))),
        NewRecord(1002, None, b""),
    ]
    return build(records, base_offset=base_offset, leader_epoch=3)


def idempotent(base_offset: int = 7) -> bytearray:
    builder = BatchBuilder(Codec.GZIP)
    builder.append(1003, b"key", None)
    return builder.build(
        producer_id=9, producer_epoch=1, base_sequence=4, base_offset=base_offset, leader_epoch=3
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / LOG
    path.write_bytes(plain() + idempotent())
    return path


def batch_lines() -> list[str]:
    first, second = plain(), idempotent()
    return [
        "baseOffset: 5 lastOffset: 6 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 "
        "producerEpoch: -1 partitionLeaderEpoch: 3 isTransactional: false isControl: false "
        "deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1002 "
        f"size: {len(first)} magic: 2 compresscodec: none crc: {crc(first)} isvalid: true",
        "baseOffset: 7 lastOffset: 7 count: 1 baseSequence: 4 lastSequence: 4 producerId: 9 "
        "producerEpoch: 1 partitionLeaderEpoch: 3 isTransactional: false isControl: false "
        f"deleteHorizonMs: OptionalLong.empty position: {len(first)} CreateTime: 1003 "
        f"size: {len(second)} magic: 2 compresscodec: gzip crc: {crc(second)} isvalid: true",
    ]


def test_a_line_a_batch(run: Run, log: Path) -> None:
    code, out, err = run("dump-log", "--files", log)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"Dumping {log}", "Log starting offset: 5", *batch_lines()]


def test_a_line_a_record(run: Run, log: Path) -> None:
    first, second = batch_lines()
    meta = (
        "| offset: 5 CreateTime: 1000 keySize: 1 valueSize: 5 sequence: -1 headerKeys: [h1,h2]",
        "| offset: 6 CreateTime: 1002 keySize: -1 valueSize: 0 sequence: -1 headerKeys: []",
        "| offset: 7 CreateTime: 1003 keySize: 3 valueSize: -1 sequence: 4 headerKeys: []",
    )
    out = run("dump-log", "--files", log, "--deep-iteration").out
    assert out.splitlines()[2:] == [first, meta[0], meta[1], second, meta[2]]
    out = run("dump-log", "--files", log, "--print-data-log").out
    assert out.splitlines()[2:] == [
        first,
        f"{meta[0]} key: k payload: grün",
        f"{meta[1]} payload: ",
        second,
        f"{meta[2]} key: key",
    ]
    out = run("dump-log", "--files", log, "--print-data-log", "--skip-record-metadata").out
    assert out.splitlines()[3] == "| key: k payload: grün"


def test_trailing_garbage_is_counted(run: Run, log: Path) -> None:
    log.write_bytes(log.read_bytes() + idempotent(8)[:-1])
    code, out, _ = run("dump-log", "--files", log)
    assert code == 1
    assert out.splitlines()[-1] == (
        f"Found {len(idempotent()) - 1} invalid bytes at the end of {LOG}"
    )


def test_a_wrong_checksum_is_shown(run: Run, log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    code, out, _ = run("dump-log", "--files", log)
    assert code == 1
    assert [line.endswith("isvalid: true") for line in out.splitlines()[2:]] == [True, False]


def test_a_gap_between_offsets_is_told(run: Run, log: Path) -> None:
    log.write_bytes(plain(5) + plain(9))
    code, _, err = run("dump-log", "--files", log, "--deep-iteration")
    assert code == 1
    assert err.splitlines() == [f"Non-consecutive offsets in {log}", "  6 is followed by 9"]


def test_max_bytes_ends_early(run: Run, log: Path) -> None:
    code, out, _ = run("dump-log", "--files", log, "--max-bytes", len(plain()))
    assert code == 0
    assert out.splitlines()[2:] == batch_lines()[:1]


def test_control_records(run: Run, tmp_path: Path) -> None:
    log = tmp_path / LOG
    batch = build([(1000, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7))], base_offset=5)
    batch[21:23] = struct.pack(">h", 0x30)  # transactional and control
    batch[17:21] = struct.pack(">I", crc32c(batch[21:]))
    log.write_bytes(batch)
    out = run("dump-log", "--files", log, "--print-data-log").out
    assert " isTransactional: true isControl: true " in out
    assert out.splitlines()[-1] == (
        "| offset: 5 CreateTime: 1000 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
        "endTxnMarker: COMMIT coordinatorEpoch: 7"
    )


def test_an_index_is_checked_against_its_segment(run: Run, log: Path) -> None:
    index = log.with_suffix(".index")
    index.write_bytes(struct.pack(">4i", 1, 0, 2, len(plain())))
    code, out, err = run("dump-log", "--files", index)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == [
        "offset: 6 position: 0",
        f"offset: 7 position: {len(plain())}",
    ]
    index.write_bytes(struct.pack(">4i", 1, 0, 3, len(plain())))
    code, out, err = run("dump-log", "--files", index, "--verify-index-only")
    assert (code, out) == (1, f"Dumping {index}\n")
    assert err.splitlines() == [f"Mismatches in :{index}", "  Index offset: 8, log offset: 7"]


def test_zeros_at_the_end_of_an_index_are_padding(run: Run, log: Path) -> None:
    index = log.with_suffix(".index")
    index.write_bytes(struct.pack(">2i", 1, 0) + bytes(80))
    code, out, _ = run("dump-log", "--files", index)
    assert (code, out.splitlines()[1:]) == (0, ["offset: 6 position: 0"])
    index.write_bytes(b"")
    assert run("dump-log", "--files", index).out.splitlines()[1:] == [f"{index} is empty."]


def test_a_time_index_is_checked_against_its_segment(run: Run, log: Path) -> None:
    log.with_suffix(".index").write_bytes(struct.pack(">4i", 1, 0, 2, len(plain())))
    index = log.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">qiqi", 1002, 1, 1003, 2))
    code, out, err = run("dump-log", "--files", index)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:] == ["timestamp: 1002 offset: 6", "timestamp: 1003 offset: 7"]
    index.write_bytes(struct.pack(">qiqiqi", 1004, 1, 1003, 2, 1005, 3))
    code, _, err = run("dump-log", "--files", index)
    assert code == 1
    assert err.splitlines() == [
        f"Found timestamp mismatch in :{index}",
        "  Index timestamp: 1004, log timestamp: 1002",
        f"Found out of order timestamp in :{index}",
        "  Index timestamp: 1003, Previously indexed timestamp: 1004",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 8, found log offset: -1",
    ]


@pytest.mark.parametrize(
    ("name", "data", "sane"),
    [
        ("00000000000000000005.index", struct.pack(">4i", 1, 0, 2, 90), True),
        ("00000000000000000005.index", struct.pack(">3i", 1, 0, 2), False),
        ("00000000000000000005.index", struct.pack(">4i", 2, 0, 1, 90), False),
        ("00000000000000000005.timeindex", struct.pack(">qiqi", 9, 1, 10, 2), True),
        ("00000000000000000005.timeindex", struct.pack(">qiqi", 9, 2, 10, 1), False),
    ],
)
def test_sanity_of_an_index(run: Run, tmp_path: Path, name: str, data: bytes, sane: bool) -> None:
    index = tmp_path / name
    index.write_bytes(data)
    code, out, _ = run("dump-log", "--files", index, "--index-sanity-check")
    assert code == (0 if sane else 1)
    assert (f"{index} passed sanity check." in out) == sane


def snapshot(*entries: tuple[int, ...]) -> bytes:
    body = struct.pack(">i", len(entries))
    body += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries)
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_producer_snapshot(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.snapshot"
    path.write_bytes(
        snapshot(
            (9, 1, 4, 57, 2, 1003, -1, -1),
            (10, 0, 1, 60, 3, 1004, 2, 55),
            (11, 0, -1, -1, 0, -1, -1, -1),
        )
    )
    code, out, _ = run("dump-log", "--files", path)
    assert code == 0
    assert out.splitlines()[1:] == [
        "producerId: 9 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: "
        "OptionalLong.empty lastTimestamp: 1003 firstSequence: 2 lastSequence: 4 lastOffset: 57 "
        "offsetDelta: 2 timestamp: 1003",
        "producerId: 10 producerEpoch: 0 coordinatorEpoch: 2 currentTxnFirstOffset: "
        "OptionalLong[55] lastTimestamp: 1004 firstSequence: 2147483646 lastSequence: 1 "
        "lastOffset: 60 offsetDelta: 3 timestamp: 1004",
        "producerId: 11 producerEpoch: 0 coordinatorEpoch: -1 currentTxnFirstOffset: "
        "OptionalLong.empty lastTimestamp: -1 ",
    ]


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda data: data[:4], "4 bytes"),
        (lambda data: b"\0\7" + data[2:], "version 7"),
        (lambda data: data[:-1] + b"\1", "does not match"),
    ],
)
def test_a_damaged_producer_snapshot(run: Run, tmp_path: Path, damage, why: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "00000000000000000100.snapshot"
    path.write_bytes(damage(snapshot((9, 1, 4, 57, 2, 1003, -1, -1))))
    code, out, _ = run("dump-log", "--files", path)
    assert code == 1
    assert out.splitlines()[1].startswith(f"Snapshot {path} is corrupt: ")
    assert why in out


def test_aborted_transactions(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000005.txnindex"
    path.write_bytes(struct.pack(">hqqqq", 0, 9, 5, 8, 9))
    assert run("dump-log", "--files", path).out.splitlines()[1:] == [
        "version: 0 producerId: 9 firstOffset: 5 lastOffset: 8 lastStableOffset: 9"
    ]


def test_checkpoints(run: Run, tmp_path: Path) -> None:
    epochs = tmp_path / "leader-epoch-checkpoint"
    epochs.write_text("0\n2\n0 0\n3 17\n")
    offsets = tmp_path / "replication-offset-checkpoint"
    offsets.write_text("0\n1\nflights 4 99\n")
    code, out, _ = run("dump-log", "--files", f"{epochs},{offsets}")
    assert code == 0
    assert out.splitlines() == [
        f"Dumping {epochs}",
        "version: 0 entries: 2",
        "leaderEpoch: 0 startOffset: 0",
        "leaderEpoch: 3 startOffset: 17",
        f"Dumping {offsets}",
        "version: 0 entries: 1",
        "topic: flights partition: 4 offset: 99",
    ]
    ours = encode_offsets({TopicPartition("flights", 4): 99})
    offsets.write_bytes(ours)
    code, out, _ = run("dump-log", "--files", offsets)
    assert code == 0
    assert out.splitlines()[2:] == [
        "topic: flights partition: 4 offset: 99",
        "checksum: 556527792",
    ]
    offsets.write_bytes(ours.replace(b"99", b"95"))
    code, out, _ = run("dump-log", "--files", offsets)
    assert code == 1
    assert "does not match the checksum" in out
    epochs.write_text("0\n3\n0 0\n3 17\n")
    code, out, _ = run("dump-log", "--files", epochs)
    assert code == 1
    assert out.endswith("is corrupt: 3 entries announced, 2 found\n")


def test_metadata_records_are_shown_as_json(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000012-0000000003.checkpoint"
    record = encode_record(ClusterRecord(cluster_id="abc"))
    path.write_bytes(build([(1000, None, record)], base_offset=0))
    out = run("dump-log", "--files", path, "--cluster-metadata-decoder").out
    lines = out.splitlines()
    assert lines[1] == "Snapshot end offset: 12, epoch: 3"
    payload = '{"type": "ClusterRecord", "data": {"unknown": null, "cluster_id": "abc"}}'
    assert lines[3].endswith(f"payload: {payload}")


def test_s_55_no_secret_of_the_metadata_is_shown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000012-0000000003.checkpoint"
    secret = b"a secret of thirty-two bytes ..."
    records = (
        ScramSecretRecord(secret),
        ScramCredentialRecord("alice", 1, b"salt" + secret, secret, secret, 4096),
    )
    batches = [(1000, None, encode_record(record)) for record in records]
    path.write_bytes(build(batches, base_offset=0))
    out = run("dump-log", "--files", path, "--cluster-metadata-decoder").out
    assert '"name": "alice"' in out
    assert out.count('"***"') == 4
    assert "secret of" not in out
    assert secret.hex() not in out


def test_decoders(run: Run, log: Path) -> None:
    log.write_bytes(build([(1, struct.pack(">i", -2), struct.pack(">q", 77))], base_offset=5))
    decoders = (
        "--key-decoder-class=org.apache.kafka.tools.api.IntegerDecoder",
        "--value-decoder-class=LongDecoder",
    )
    out = run("dump-log", "--files", log, "--print-data-log", *decoders).out
    assert out.rstrip().endswith("key: -2 payload: 77")
    code, _, err = run("dump-log", "--files", log, "--key-decoder-class=x.Y")
    assert code == 2
    assert len(err.splitlines()) == 1


def test_bad_arguments_are_one_line(run: Run, tmp_path: Path) -> None:
    code, out, err = run("dump-log")
    assert (code, out) == (2, "")
    assert err == "minikafka dump-log: Missing option '--files' (see minikafka dump-log --help)\n"
    missing = tmp_path / LOG
    assert run("dump-log", "--files", missing) == (1, "", f"{missing}: no such file\n")
    odd = tmp_path / "odd.index"
    odd.write_bytes(b"")
    assert run("dump-log", "--files", odd).err == f"{odd}: a segment is named by its offset\n"
    unknown = tmp_path / "notes.txt"
    unknown.write_text("")
    code, _, err = run("dump-log", "--files", unknown)
    assert (code, err) == (0, f"Ignoring unknown file {unknown}\n")
