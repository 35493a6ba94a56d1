"""The control protocol's messages: what is written is read, and nothing else is."""

import dataclasses
import typing
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.control import messages as m
from minikafka.protocol.control import quorum_messages as q
from minikafka.protocol.control import records as r
from minikafka.protocol.control.frames import decode_frame, encode_body, encode_frame
from minikafka.protocol.control.heartbeat import (
    DATAGRAM_BYTES_MAX,
    Heartbeat,
    decode_heartbeat,
    encode_heartbeat,
)
from minikafka.protocol.control.packing import from_plain
from minikafka.protocol.errors import LocalProtocolError, RemoteProtocolError

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    int: INT64,
    float: st.floats(allow_nan=False),
    bool: st.booleans(),
    str: st.text(max_size=20),
    bytes: st.binary(max_size=40),
}


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value that a field of this type may have."""
    if hint in SCALARS:
        return SCALARS[hint]
    if dataclasses.is_dataclass(hint):
        return instances_of(hint)
    args = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Annotated:
        return st.integers(*args[1])
    if type(None) in args:
        (inner,) = (arg for arg in args if arg is not type(None))
        return st.none() | values_of(inner)
    if typing.get_origin(hint) is tuple:
        return st.lists(values_of(args[0]), max_size=3).map(tuple)
    assert typing.get_origin(hint) is dict
    return st.dictionaries(st.text(max_size=5), values_of(args[1]), max_size=3)


def instances_of(cls: Any) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return st.builds(
        cls, **{f.name: values_of(hints[f.name]) for f in dataclasses.fields(cls) if not f.kw_only}
    )


MESSAGES = st.sampled_from(list(m.KINDS.values())).flatmap(instances_of)
RECORDS = st.sampled_from([cls for cls, _ in r.RECORD_TYPES.values()]).flatmap(instances_of)
PLAIN = st.recursive(
    st.none() | st.booleans() | INT64 | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(MESSAGES, st.integers(0, (1 << 63) - 1))
def test_every_message_is_read_as_it_was_written(message: Any, correlation_id: int) -> None:
    frame = encode_frame(correlation_id, message)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    read = decode_frame(memoryview(frame)[4:])
    assert (read.correlation_id, read.message) == (correlation_id, message)


@pytest.mark.parametrize(
    ("declared", "name"),
    [
        (q.Vote, "epoch"),
        (q.Vote, "last_epoch"),
        (q.Vote, "end_offset"),
        (q.BeginQuorumEpoch, "epoch"),
        (q.EndQuorumEpoch, "epoch"),
        (q.FetchQuorumLog, "offset"),
        (q.VoteAnswer, "epoch"),
        (q.VoterKey, "voter_id"),
        (m.BrokerHeartbeat, "broker_epoch"),
        (m.BrokerHeartbeat, "metadata_offset"),
        (m.RegisterBroker, "broker_id"),
        (m.RegisterBroker, "previous_broker_epoch"),
        (m.PartitionChange, "leader_epoch"),
        (m.PartitionChange, "partition_epoch"),
        (m.PartitionChange, "partition"),
        (m.ForwardedRequest, "api_version"),
        (m.VersionRange, "highest"),
        (Heartbeat, "sequence"),
    ],
)
def test_a_number_that_fits_no_field_is_the_peers_mistake(declared: Any, name: str) -> None:
    """Just outside of its bounds; inside of 64 bits it was taken before, and packed later."""
    hint = typing.get_type_hints(declared, include_extras=True)[name]
    least, most = typing.get_args(hint)[1]
    assert most < 1 << 63
    place = [each.name for each in dataclasses.fields(declared)].index(name)
    plain = [plainest(each) for each in typing.get_type_hints(declared).values()]
    for wrong in (least - 1, most + 1):
        plain[place] = wrong
        with pytest.raises(RemoteProtocolError, match=name):
            from_plain(declared, plain)


def plainest(hint: Any) -> Any:
    """Some value that a field of this type may have, as it is packed."""
    if dataclasses.is_dataclass(hint):
        return [plainest(each) for each in typing.get_type_hints(hint).values()]
    if type(None) in typing.get_args(hint):
        return None
    return {int: 0, bool: False, str: "", bytes: b"", tuple: [], dict: {}}[
        typing.get_origin(hint) or hint
    ]


@given(RECORDS)
def test_every_record_is_read_as_it_was_written(record: Any) -> None:
    assert r.decode_record(r.encode_record(record)) == record


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_the_peers_mistake(data: bytes) -> None:
    for read in (decode_frame, r.decode_record, decode_heartbeat):
        try:
            read(data)
        except RemoteProtocolError:
            continue


@given(PLAIN)
def test_any_messagepack_is_a_message_or_the_peers_mistake(plain: Any) -> None:
    for kind in m.KINDS:
        for data in (msgpack.packb([kind, 1, plain]), msgpack.packb([kind, plain, []])):
            try:
                decode_frame(data)
            except RemoteProtocolError:
                continue


@given(MESSAGES, st.data())
def test_a_cut_or_flipped_frame_is_a_message_or_the_peers_mistake(
    message: Any, data: st.DataObject
) -> None:
    frame = bytearray(encode_frame(7, message)[4:])
    with pytest.raises(RemoteProtocolError):
        decode_frame(frame[: data.draw(st.integers(0, len(frame) - 1))])
    frame[data.draw(st.integers(0, len(frame) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decode_frame(frame)
    except RemoteProtocolError:
        return


def test_a_newer_writer_may_append_fields() -> None:
    message = m.FetchMetadata(1, 2, 3)
    plain = msgpack.unpackb(encode_frame(5, message)[4:])
    plain[2].append({"new": 1})
    assert decode_frame(msgpack.packb(plain)).message == message


def test_an_older_writer_may_leave_out_fields_that_have_a_default() -> None:
    assert decode_frame(msgpack.packb([9, 1, [1, 2, 3]])).message == m.FetchMetadata(1, 2, 3)
    with pytest.raises(RemoteProtocolError, match="max_wait_ms is missing"):
        decode_frame(msgpack.packb([9, 1, [1, 2]]))


def test_a_record_of_a_newer_writer_is_written_back_whole() -> None:
    """An old node's snapshot must not lose what a newer one wrote."""
    newer = msgpack.packb([6, 2, ["t", b"i" * 16, "more", [1]]])
    record = r.decode_record(newer)
    assert isinstance(record, r.TopicRecord)
    assert record.unknown == r.Unknown(2, ("more", [1]))
    assert r.encode_record(record) == newer
    unheard_of = msgpack.packb([999, 3, [1, {"a": None}]])
    assert r.encode_record(r.decode_record(unheard_of)) == unheard_of


@pytest.mark.parametrize(
    "claim",
    [
        b"\xdd\x7f\xff\xff\xff",  # an array of 2^31 items
        b"\x93\x01\x01\xdd\x00\x10\x00\x00",
        b"\xdf\x7f\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x91" * 5000,
        b"\xc1",
        b"\xd6\xff\x00\x00\x00\x00",  # an extension: a timestamp
        b"\xa2\xc3\x28",  # not UTF-8
        b"\x93\x01\x01\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xff",  # 2^64 - 1
    ],
)
def test_claims_that_are_not_met_are_refused(claim: bytes) -> None:
    for read in (decode_frame, r.decode_record, decode_heartbeat):
        with pytest.raises(RemoteProtocolError):
            read(claim)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([True, b"", 1, (), 1, b""], "Hello.cluster_id: expected a string, got bool"),
        ([None, True, 1, 1, 1, b""], "Hello.min_version: expected a 64-bit integer, got bool"),
        ([None, 1, 1, 1, 1, "id"], "Hello.incarnation_id: expected bytes, got str"),
        ({}, "Hello: expected an array, got dict"),
    ],
)
def test_a_mistake_is_named(fields: Any, words: str) -> None:
    with pytest.raises(RemoteProtocolError) as refused:
        decode_frame(msgpack.packb([3, 1, fields]))
    assert words in str(refused.value)


def test_only_declared_messages_are_sent() -> None:
    with pytest.raises(LocalProtocolError):
        encode_frame(1, m.Endpoint("A", "h", 1))
    with pytest.raises(LocalProtocolError):
        r.encode_record(r.MetadataRecord())


def test_every_request_has_its_answer() -> None:
    requests = [cls for cls in m.KINDS.values() if issubclass(cls, m.Request)]
    assert list(m.ANSWERS) == requests
    assert all(answer in m.KINDS.values() for answer in m.ANSWERS.values())
    assert m.ANSWERS[m.RegisterBroker] is m.BrokerRegistered


@given(instances_of(Heartbeat))
def test_a_heartbeat_is_one_small_datagram(heartbeat: Heartbeat) -> None:
    datagram = encode_heartbeat(heartbeat)
    assert decode_heartbeat(datagram) == (heartbeat, datagram, b"")
    sealed = encode_heartbeat(heartbeat, lambda content: b"a tag of" + content[:8])
    assert decode_heartbeat(sealed) == (heartbeat, datagram, b"a tag of" + datagram[:8])
    with pytest.raises(RemoteProtocolError):
        decode_heartbeat(datagram + bytes(DATAGRAM_BYTES_MAX))


@pytest.mark.parametrize("content", [b"", b"\x92\xa9mk-sealed\xc4\x00", b"\x01", b"\x92\x01\x02"])
def test_a_sealed_heartbeat_without_one_in_it_is_refused(content: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_heartbeat(msgpack.packb(["mk-sealed", content, b"tag"]))
    with pytest.raises(RemoteProtocolError):
        decode_heartbeat(msgpack.packb(["mk-sealed", content]))


@pytest.mark.parametrize(
    "body", [b"\x93" + b"\x91" * 1000 + b"\x90\0\x90", b"\x93\x01" + b"\x91" * 1000 + b"\x90\x90"]
)
def test_a_frame_that_is_nested_deep_is_refused_in_few_words(body: bytes) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_frame(body)
    assert len(str(caught.value)) < 100


def test_an_array_longer_than_the_bound_is_refused() -> None:
    frame = encode_body(1, m.SealOffer(1, (b"id",) * 65, b"nonce"))
    assert decode_frame(frame, 65).correlation_id == 1
    with pytest.raises(RemoteProtocolError, match="exceeds max_array_len"):
        decode_frame(frame, 64)
