"""A message declared here goes through every kind of field that the codec compiles."""

import pytest

from minikafka.protocol import codec
from minikafka.protocol.errors import LocalProtocolError, RemoteProtocolError
from minikafka.protocol.schema import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    String,
    Uuid,
    data,
    field,
    nested,
)


@nested
class Part:
    name: String
    index: Int32
    offsets: list[Int64]
    epoch: Int32 = field("1+", default=-1)


@data(versions="0-2", flexible="2+")
class Sample:
    flag: Bool
    small: Int8
    medium: Int16
    ratio: Float64
    topic_id: Uuid
    name: String
    maybe: String | None
    blob: Bytes
    records: Records | None
    parts: list[Part]
    names: list[String]
    ids: list[Uuid] = field("1+", default=[])
    cursor: Part | None = field("2+", default=None)
    hint: String | None = field("2+", tag=0, default=None)
    leader: Part | None = field("2+", tag=1, default=None)
    rack: String = field("2+", tag=7, default="")


def sample() -> Sample:
    part = Part(name="p", index=3, offsets=[1, -1], epoch=5)
    return Sample(
        flag=True,
        small=-1,
        medium=7,
        ratio=0.5,
        topic_id=bytes(range(16)),
        name="näme",
        maybe=None,
        blob=b"xyz",
        records=b"r" * 5000,
        parts=[part, part],
        names=["a", "b" * 200],
        ids=[bytes(16)],
        cursor=part,
        leader=part,
        rack="r1",
    )


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_is_encoded_is_decoded(version: int) -> None:
    message = sample()
    encoded = codec.encode_bytes(message, version)
    decoded = codec.decode(Sample, version, encoded)
    assert codec.encode_bytes(decoded, version) == encoded
    assert decoded.name == "näme"
    assert decoded.parts[1].offsets == [1, -1]
    assert decoded.parts[1].epoch == (5 if version >= 1 else -1)
    assert decoded.cursor == (message.cursor if version == 2 else None)
    assert decoded.leader == (message.leader if version == 2 else None)
    assert decoded.hint is None


def test_record_bytes_are_parts_of_their_own_and_views_of_the_frame() -> None:
    message = sample()
    parts = codec.encode(message, 2)
    assert any(part is message.records for part in parts)
    frame = bytearray(b"".join(parts))
    decoded = codec.decode(Sample, 2, frame)
    assert isinstance(decoded.records, memoryview)
    assert decoded.records.obj is frame


@pytest.mark.parametrize("version", [0, 2])
def test_every_cut_is_refused(version: int) -> None:
    encoded = codec.encode_bytes(sample(), version)
    for cut in range(len(encoded)):
        with pytest.raises(RemoteProtocolError, match="Sample"):
            codec.decode(Sample, version, encoded[:cut])
    with pytest.raises(RemoteProtocolError, match="left over"):
        codec.decode(Sample, version, encoded + b"\0")


def test_unknown_tags_are_skipped_and_tags_must_ascend() -> None:
    message = sample()
    message.leader, message.rack = None, ""
    encoded = codec.encode_bytes(message, 2)
    assert encoded[-1] == 0
    assert codec.decode(Sample, 2, encoded[:-1] + b"\x01\x63\x02ab") == codec.decode(
        Sample, 2, encoded
    )
    with pytest.raises(RemoteProtocolError, match="tag 4 after tag 5"):
        codec.decode(Sample, 2, encoded[:-1] + b"\x02\x05\x00\x04\x00")


def test_what_may_not_be_null_is_refused_both_ways() -> None:
    message = sample()
    message.name = None  # type: ignore[assignment]
    with pytest.raises(LocalProtocolError, match="name may not be None"):
        codec.encode(message, 0)
    with pytest.raises(LocalProtocolError, match="versions 0-2, not 3"):
        codec.encode(message, 3)
